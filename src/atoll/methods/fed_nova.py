"""Averaging that clients with more local steps do not dominate."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import SCALAR, register
from atoll.methods.client import Client
from atoll.methods.corrected import minus, plus
from atoll.methods.global_model import GlobalModel
from atoll.optimizers.sgd import SGD
from atoll.options import option
from atoll.tree import Kinds, Params


@register("fed-nova")
class FedNova(GlobalModel):
    """Normalised averaging of clients that take different numbers of steps (Wang et al., 2020).

    Where client i takes tau_i local steps from x, FedAvg minimises another objective than the
    clients' weighted loss: more steps are more weight. FedNova averages what a step did,
    ``d_i = (x_i - x) / |a_i|``, and moves by the steps that were taken on average:
    ``x <- x + (sum_i p_i |a_i|) (sum_i p_i d_i)``, p the clients' shares. ``|a_i|`` is how much of
    a gradient tau_i steps make in all: tau_i with plain ``sgd``; with momentum rho, fresh in each
    round, ``(tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho)``. With equal steps it is FedAvg.

    ``local_epochs`` says how many steps a client takes, at most or about ``epochs``:

    - ``drawn``, the default: uniformly from 1 to ``epochs``, by each client anew in each round (the
      paper has 2 to 5 epochs);
    - ``size``: as many as there are mini-batches of ``batch`` labelled nodes in ``epochs`` passes,
      ``max(1, floor(epochs n_i / batch))``, as in the paper; each step is still a full batch;
    - ``same``: all take ``epochs`` steps.

    A client sends ``x + d_i`` and ``|a_i|``; the server needs their sums only.

    Departures and readings:

    - With Adam, for which the paper has no a_i, ``|a_i|`` is tau_i: a step of Adam is about as
      long as any other. Its clocks count each client's own steps.
    - The paper's proximal and decaying variants are left out; its server momentum is
      ``server_optimizer = "avgm"``.
    """

    takes_batches = False

    epochs: int = 5
    local_epochs: Literal["drawn", "size", "same"] = "drawn"
    batch: int = option(32, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.momentum and self.keep_optimizer:
            raise AtollError(
                "fed-nova's norm of momentum holds for momentum that starts afresh each round; "
                "set method.keep_optimizer=false."
            )

    @property
    def momentum(self) -> float:
        return self.optimizer.momentum if isinstance(self.optimizer, SGD) else 0.0

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        x, norm = server["model"], {"steps": {"norm": SCALAR}}
        chosen, total = self.train_some(fed, server, expect=norm)
        steps = float(total.mean["steps"]["norm"])
        model = plus(x, minus(total.mean["model"], x), steps)
        total = replace(total, mean={**total.mean, "model": model})
        return {**server, **self.moved(server, self.averaged(fed, total, chosen))}

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        tau = self.steps(client)
        if bool((tau == self.epochs).all()):
            w = client.fit(model)
        else:
            w = self.descend_for(client, model, tau)
        a = self.norm(tau)
        d = {n: (p - model[n]) / over(a, p) for n, p in w.items()}
        return Reply(model=plus(d, model), steps={"norm": a}, weight=self.weight(client))

    def steps(self, client: Client) -> Tensor:
        """How many local steps each client takes in this round ``[K]``."""
        if self.local_epochs == "same":
            return torch.full((client.k,), self.epochs)
        if self.local_epochs == "drawn":
            return torch.tensor([int(s.integers(1, self.epochs + 1)) for s in client.rng.streams])
        n = self.counted(client).labelled
        return (self.epochs * n / self.batch).floor().clamp(min=1).long()

    def descend_for(self, client: Client, model: Params, tau: Tensor) -> Params:
        """``tau [K]`` steps of each client; who is done waits for the others."""
        w = client.owned(model)
        for step in range(int(tau.max())):
            w = client.descend(
                lambda w: client.loss(w, training=True),
                w,
                active=tau > step,
                epochs=1,
                keep=self.keep_optimizer or step > 0,
            )
        client.state["model"] = w
        return w

    def norm(self, tau: Tensor) -> Tensor:
        """``|a_i|`` of that many steps."""
        tau, rho = tau.double(), self.momentum
        return (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho) if rho else tau

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        usual = super().remarks(server, concluded)
        if self.local_epochs == "same" or (self.local_epochs == "drawn" and self.epochs == 1):
            return ["all clients took the same number of steps, so this was FedAvg; set "
                    "method.epochs to 2 or more with method.local_epochs=drawn, or "
                    "method.local_epochs=size.", *usual]  # fmt: skip
        return usual


def over(a: Tensor, p: Tensor) -> Tensor:
    """One number per client, shaped to divide ``p [K, ...]``."""
    return a.to(p.dtype).view(-1, *[1] * (p.dim() - 1))
