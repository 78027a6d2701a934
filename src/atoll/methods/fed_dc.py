"""Clients that learn their drift, and correct their gradients."""

from typing import Literal

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import Info, register
from atoll.methods.client import Client
from atoll.methods.corrected import is_plain_sgd, minus, not_gradients, plus, zeros
from atoll.methods.drift import Drifting
from atoll.tree import Kinds, Params


@register("fed-dc")
class FedDC(Drifting):
    """Local drift decoupled and corrected (FedDC, Gao et al., 2022).

    Client i minimises ``L_i(theta) + alpha/2 |h_i + theta - w|^2 + <theta, c - c_i>`` from the
    server's w: the drift h_i is its gap to the global model, which the second term lets it keep,
    and the third corrects gradients as SCAFFOLD does. Then ``h_i <- h_i + theta_i - w``, and the
    server takes ``w <- mean(theta_i + h_i)``. Models and the variates' changes are what is sent,
    and the server needs sums only.

    ``variates`` says what c_i is renewed to; c is the mean over all clients, as in ``scaffold``:

    - ``path``, the default: the mean of the gradients of L_i that the local steps met;
    - ``update``, the text: ``-(theta_i - w) / (eta K)`` of the last round, K = ``epochs``, so that
      the third term is ``<theta, g_i - g> / (eta K)`` with the text's ``g_i = theta_i - w``;
    - ``moved``, the authors' code: ``c_i - c - (theta_i - w) / (eta K)``, SCAFFOLD's option II;
    - ``none``: no correction, which makes the method FedDyn.

    ``update`` and ``moved`` take moves for gradients. **With Adam**, whose steps are about
    eta long whatever the gradient, that drowns the data, see ``scaffold``; ``path`` does not.

    Departures and readings:

    - Where not all clients take part the text's mean is over those who do. The authors' code adds
      the mean drift of all clients to the mean model of those, and so does this.
    - All count the same by default, as in the authors' code, which however divides alpha and c by
      a client's share of the data.
    - A client whose reply is lost has renewed h_i and c_i, and the server has not.

    OpenFGL's port adds each move to the drift one round late, and has the mean g outside of the
    product with theta, where it has no gradient: its third term pulls by g_i alone.
    """

    variates: Literal["path", "update", "moved", "none"] = "path"

    def start(self, info: Info, seed: int) -> Kinds:
        first = super().start(info, seed)
        return first | {"variate": zeros(first["model"])}

    def join(self, client: Client) -> Kinds:
        first = super().join(client)
        return first | {"variate": zeros(first["model"])}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        if self.variates == "none":
            return super().round(fed, server, r)
        c = server["variate"]
        chosen, total = self.train_some(fed, server, expect={"variate": c}, variate=c)
        c_next = plus(c, total.mean["variate"], total.count / len(fed.clients))
        return {**server, **self.corrected(fed, server, total, chosen), "variate": c_next}

    @client_step
    def train(self, client: Client, model: Params, variate: Params | None = None) -> Reply:
        if variate is None:
            return super().train(client, model)
        w, c, c_i = model, variate, client.state["variate"]
        away = minus(c, c_i)
        theta, path = self.drifting(client, w, lambda _: away)
        c_new = path
        if self.variates != "path":
            base = minus(c_i, c) if self.variates == "moved" else zeros(c_i)
            c_new = plus(base, minus(w, theta), 1.0 / (self.epochs * self.optimizer.lr))
        client.state["variate"] = c_new
        return Reply(model=theta, variate=minus(c_new, c_i), weight=self.weight(client))

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        if self.variates not in ("update", "moved") or is_plain_sgd(self.optimizer):
            return super().remarks(server, concluded)
        misled = not_gradients(self.optimizer.registered_name)
        return [misled, *super().remarks(server, concluded)]
