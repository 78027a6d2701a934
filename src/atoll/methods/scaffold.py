"""FedAvg whose clients correct their gradients by what all clients' gradients were."""

from typing import Literal

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import Info, register
from atoll.methods.client import Client
from atoll.methods.corrected import (
    descend_corrected,
    is_plain_sgd,
    minus,
    not_gradients,
    plus,
    refuse_literal,
    zeros,
)
from atoll.methods.global_model import GlobalModel
from atoll.options import option
from atoll.tree import Kinds, Params


@register("scaffold")
class Scaffold(GlobalModel):
    """Control variates against client drift (SCAFFOLD, Karimireddy et al., 2020).

    Algorithm 1. The server has a model x and a variate c, client i a variate c_i; all variates
    begin at zero. Of the N clients, those in S take ``epochs`` steps from ``y = x``,
    ``y <- y - eta_l (g_i(y) - c_i + c)``, renew their variate to ``c_i+``, and send y and
    ``c_i+ - c_i``. The server takes ``x <- x + eta_g mean_S(y - x)`` and
    ``c <- c + |S|/N mean_S(c_i+ - c_i)``. ``eta_g`` is ``global_step``, ``eta_l`` the optimizer's.
    The server needs sums only.

    ``variates`` says what c_i+ is:

    - ``start``, the paper's option I: the gradient at x, for one more pass over the data;
    - ``moved``, its option II: ``c_i - c + (x - y) / (epochs eta_l)``;
    - ``path``, the default: the mean of the gradients g_i that the local steps met. With plain
      ``sgd`` without weight decay this is option II exactly.

    **With Adam**, the default optimizer here, the corrected gradient is what Adam gets. A step of
    Adam is about eta_l long whatever the gradient, so option II to the letter takes numbers near
    one for gradients that may be a thousandth of that, and local training follows the variates
    instead of the data. ``path`` and ``start`` remember gradients and hold for any optimizer.

    With equal weights and one step of plain ``sgd`` the corrections cancel in the mean: the method
    equals FedAvg. It does so in the first round in any case.

    Departures and readings:

    - The paper counts all clients the same, the default of ``weights`` here. With others the
      server's means are weighted, and so is c, so that corrections still cancel over all clients.
    - g_i is the full gradient, dropout included; the paper's are of mini-batches.
    - y is sent rather than ``y - x``, which is the same to a server that knows x.
    - A client whose reply is lost has renewed its variate and the server has not: c is then off
      by that change over N. Nothing else depends on who answers.

    OpenFGL's port has option II with Adam, sets c to the mean of the sampled clients' variates
    (Algorithm 1 moves it by |S|/N of their change) and weighs models by the clients' nodes.
    """

    takes_batches = False

    weights: Literal["labelled", "labelled-and-size", "equal"] = "equal"
    variates: Literal["path", "start", "moved"] = "path"
    global_step: float = option(1.0, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_literal(self.registered_name, self.literal_weights)

    def start(self, info: Info, seed: int) -> Kinds:
        first = super().start(info, seed)
        return first | {"variate": zeros(first["model"])}

    def join(self, client: Client) -> Kinds:
        first = super().join(client)
        return first | {"variate": zeros(first["model"])}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        x, c = server["model"], server["variate"]
        chosen, total = self.train_some(fed, server, expect={"variate": c}, variate=c)
        x_next = plus(x, minus(self.averaged(fed, total, chosen), x), self.global_step)
        c_next = plus(c, total.mean["variate"], total.count / len(fed.clients))
        return {**server, **self.moved(server, x_next), "variate": c_next}

    @client_step
    def train(self, client: Client, model: Params, variate: Params) -> Reply:
        x, c, c_i = model, variate, client.state["variate"]
        away = minus(c, c_i)
        at_start = client.gradient(x) if self.variates == "start" else {}
        y, path = descend_corrected(client, x, lambda w: away, self.epochs)
        if self.variates == "moved":
            c_new = plus(minus(c_i, c), minus(x, y), 1.0 / (self.epochs * self.optimizer.lr))
        else:
            c_new = at_start or path
        client.state["variate"] = c_new
        return Reply(model=y, variate=minus(c_new, c_i), weight=self.weight(client))

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        plain, usual = is_plain_sgd(self.optimizer), super().remarks(server, concluded)
        if self.variates == "moved" and not plain:
            return [not_gradients(self.optimizer.registered_name), *usual]
        if plain and self.epochs == 1 and self.weights == "equal" and self.fraction == 1.0:
            return ["with one local step of sgd and equal weights the corrections cancel, so this "
                    "was FedAvg; set method.epochs to 2 or more.", *usual]  # fmt: skip
        return usual
