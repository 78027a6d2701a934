"""What FedDyn and FedDC share: clients that remember how far they were drawn away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from atoll.federation.calls import Reply, Total, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import Info
from atoll.methods.client import Client
from atoll.methods.corrected import (
    Correction,
    descend_corrected,
    minus,
    plus,
    refuse_literal,
    zeros,
)
from atoll.methods.global_model import GlobalModel
from atoll.options import option
from atoll.tree import Kinds, Params


@dataclass(frozen=True, kw_only=True)
class Drifting(GlobalModel):
    """Client i keeps ``h_i``, the sum of its moves so far, and minimises, from the server's w,

    ``L_i(theta) + alpha/2 |theta - w + h_i|^2``. Then ``h_i <- h_i + theta_i - w``. The server
    keeps H, the mean of all clients' h_i: ``H <- H + |S|/N mean_S(theta_i - w)``, and its next
    model is ``w <- mean_S(theta_i) + H``. The moves follow from the models, so that nothing but
    these is sent.

    Adam's moments start afresh each round (``keep_optimizer``): those of the last round belong to
    another objective, with another h_i and w, and the server adds up what they go on with.
    """

    takes_batches: ClassVar[bool] = False

    weights: Literal["labelled", "labelled-and-size", "equal"] = "equal"
    keep_optimizer: bool = False
    alpha: float = option(0.01, at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_literal(self.registered_name, self.literal_weights)

    def start(self, info: Info, seed: int) -> Kinds:
        first = super().start(info, seed)
        return first | {"drift": zeros(first["model"])}

    def join(self, client: Client) -> Kinds:
        first = super().join(client)
        return first | {"drift": zeros(first["model"])}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        chosen, total = self.train_some(fed, server)
        return {**server, **self.corrected(fed, server, total, chosen)}

    def corrected(
        self, fed: Federation, server: Kinds, total: Total, chosen: tuple[int, ...]
    ) -> Kinds:
        """The server's model and mean drift, from the sum of the chosen clients' models."""
        w, mean = server["model"], self.averaged(fed, total, chosen)
        H = plus(server["drift"], minus(mean, w), total.count / len(fed.clients))
        return self.moved(server, plus(mean, H)) | {"drift": H}

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        theta, _ = self.drifting(client, model)
        return Reply(model=theta, weight=self.weight(client))

    def drifting(
        self, client: Client, w: Params, further: Correction | None = None
    ) -> tuple[Params, Params]:
        """Local training with the pull of the drift, and its mean uncorrected gradient."""
        h = client.state["drift"]

        def correction(theta: Mapping[str, Tensor]) -> Params:
            pull = {n: self.alpha * (p - w[n] + h[n]) for n, p in theta.items()}
            return pull if further is None else plus(pull, dict(further(theta)))

        theta, path = descend_corrected(client, w, correction, self.epochs)
        client.state["drift"] = plus(h, minus(theta, w))
        return theta, path
