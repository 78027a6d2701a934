"""One model that clients train and the server averages: what FedAvg and its family share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, Total, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import SCALAR, Info, Method
from atoll.methods.client import Client
from atoll.methods.server_optimizer import (
    USUAL_LR,
    ServerOptimizer,
    first_moments,
    server_step,
)
from atoll.options import option
from atoll.tree import Kinds, Params, replicated


@dataclass(frozen=True, kw_only=True)
class GlobalModel(Method):
    """A round: a ``fraction`` of the clients train the global model, the server averages theirs.

    A method of this family changes one of the hooks: :meth:`view` (on which graphs clients work),
    :meth:`local_training`, :meth:`public` (which part of a model leaves a client), :meth:`counted`
    (what clients are weighed by), or :meth:`round` itself, in terms of :meth:`train_some`,
    :meth:`averaged` and :meth:`moved`.

    ``evaluates`` says which model a client is scored with: ``local``, the one it has just trained
    and would go on using (as in FED-PUB's code), or ``global``, the new average, which is sent to
    every client for the purpose.

    ``weights`` says what a client counts in the average: its ``labelled`` nodes ``s_k``;
    ``labelled-and-size``, ``s_k n_k`` with ``n_k`` all its nodes (Fed-GALA, eq. 3.2); or ``equal``,
    the same for every client that has a labelled node. The average is
    ``sum_k w_k theta_k / sum_k w_k``. With ``literal_weights`` it is eq. 3.2 to the letter,
    ``sum_k (s_k / s)(n_k / n) theta_k``, whose weights sum to about 1/K rather than 1.

    ``server_optimizer`` lets the server take the average for a direction rather than for the next
    model: the move that it would make is the gradient of ``avgm`` (momentum; Hsu et al., 2019), or
    of ``adam``, ``yogi`` or ``adagrad`` (FedAdam, FedYogi, FedAdagrad; Reddi et al., 2021), with
    ``server_lr`` (0: 1 for avgm, 0.01 for the others), ``server_beta1``, ``server_beta2`` and
    ``server_tau``; see :func:`atoll.methods.server_optimizer.server_step`. The paper has no
    ``beta1`` for FedAdagrad (0 there). Clients notice nothing, and nothing more is sent. Papers and
    formulas assume clients without memory: set ``keep_optimizer = false`` with it.
    """

    fraction: float = option(1.0, above=0, at_most=1)
    evaluates: Literal["local", "global"] = "local"
    weights: Literal["labelled", "labelled-and-size", "equal"] = "labelled"
    literal_weights: bool = False
    server_optimizer: ServerOptimizer = "none"
    server_lr: float = option(0.0, at_least=0, why="0 is 1 for avgm and 0.01 for the others")
    server_beta1: float = option(0.9, at_least=0, below=1)
    server_beta2: float = option(0.99, at_least=0, below=1)
    server_tau: float = option(1e-3, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.literal_weights and self.weights != "labelled-and-size":
            raise AtollError(
                "method.literal_weights has a meaning only with "
                "method.weights = 'labelled-and-size'; other weights sum to one anyway."
            )
        idle = [n for n, usual in _SERVER.items() if getattr(self, n) != usual]
        if self.server_optimizer == "none" and idle:
            raise AtollError(
                f"method.{idle[0]} has a meaning only with method.server_optimizer; choose avgm, "
                f"adam, yogi or adagrad."
            )

    def start(self, info: Info, seed: int) -> Kinds:
        model = self.public(self.initial_model(info, seed))
        if self.server_optimizer == "none":
            return {"model": model}
        return {
            "model": model,
            "moments": first_moments(self.server_optimizer, model, self.server_tau),
        }

    def join(self, client: Client) -> Kinds:
        model = self.initial_model(client.cohort, client.rng.seed)
        return self.trainable(replicated(model, client.k))

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        chosen, total = self.train_some(fed, server)
        return {**server, **self.moved(server, self.averaged(fed, total, chosen))}

    def train_some(
        self,
        fed: Federation,
        server: Kinds,
        step: str = "train",
        expect: Mapping[str, Any] | None = None,
        each: Mapping[str, Any] | None = None,
        **shared: Mapping[str, Any],
    ) -> tuple[tuple[int, ...], Total]:
        """Have the chosen clients train the global model: who they are, and the sum they make.

        ``expect`` is what a reply holds besides the model; ``shared`` and ``each`` are sent along.
        """
        chosen, model = self.chosen(fed), {"model": server["model"]}
        total = fed.sum(
            step,
            shared=model | shared,
            each=each,
            to=chosen,
            expect=model | dict(expect or {}),
            weighted=True,
        )
        return chosen, total

    def chosen(self, fed: Federation) -> tuple[int, ...]:
        """A random share of the clients, at least one, drawn anew each round."""
        return some_clients(fed, self.fraction)

    def averaged(self, fed: Federation, total: Total, clients: Sequence[int]) -> Params:
        """The new global model, from the sum of the models of some clients."""
        model: Params = total.mean["model"]
        if self.literal_weights:
            sizes = fed.sum("sizes", to=clients, expect={"size": dict.fromkeys(_SIZES, SCALAR)})
            labelled, nodes = (sizes.count * float(sizes.mean["size"][what]) for what in _SIZES)
            model = {name: p * (total.weight / (labelled * nodes)) for name, p in model.items()}
        return model

    def moved(self, server: Kinds, average: Params) -> Kinds:
        """The server's model, and its optimizer's memory if it has one, given the new average."""
        if self.server_optimizer == "none":
            return {"model": average}
        x = server["model"]
        model, moments = server_step(
            self.server_optimizer,
            x,
            {name: p - x[name] for name, p in average.items()},
            server["moments"],
            self.server_lr or USUAL_LR[self.server_optimizer],
            self.server_beta1,
            self.server_beta2,
            self.server_tau,
        )
        return {"model": model, "moments": moments}

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        trained = self.local_training(client, model)
        return Reply(model=self.public(trained), weight=self.weight(client))

    def weight(self, client: Client) -> Tensor:
        """What each client counts in the average ``[K]``."""
        cohort = self.counted(client)
        if self.weights == "equal":
            return (cohort.labelled > 0).double()
        if self.weights == "labelled":
            return cohort.labelled
        return cohort.labelled * torch.tensor(cohort.sizes, dtype=torch.float64)

    def heaviest(self, nodes: int, labelled: int) -> float:
        if self.weights == "equal":
            return 1.0
        most = super().heaviest(nodes, labelled)
        return most if self.weights == "labelled" else most * nodes

    def counted(self, client: Client) -> Cohort:
        """The data that clients are weighed by."""
        return client.cohort

    @client_step
    def sizes(self, client: Client) -> Reply:
        """How many labelled nodes and how many nodes a client has; the server sees sums only."""
        cohort = self.counted(client)
        nodes = torch.tensor(cohort.sizes, dtype=torch.float64)
        return Reply(size={"labelled": cohort.labelled, "nodes": nodes})

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        kept = self.keep_optimizer and bool(self.optimizer.init({"w": torch.zeros(1, 1)}))
        if self.server_optimizer == "none" or not kept:
            return []
        return ["the clients' optimizers kept their moments from round to round while the server's "
                "has moments as well, which usually is too much of both; try "
                "method.keep_optimizer=false."]  # fmt: skip

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        return {"shared": {"model": server["model"]}} if self.evaluates == "global" else {}


_SIZES = ("labelled", "nodes")
# The server optimizer's own settings, which do nothing without one.
_SERVER = {"server_lr": 0.0, "server_beta1": 0.9, "server_beta2": 0.99, "server_tau": 1e-3}


def some_clients(fed: Federation, fraction: float) -> tuple[int, ...]:
    """A random share of the clients, at least one."""
    if fraction == 1.0:
        return fed.clients
    count = max(1, round(fraction * len(fed.clients)))
    drawn = fed.rng("pick clients").choice(len(fed.clients), size=count, replace=False)
    return tuple(fed.clients[i] for i in sorted(np.asarray(drawn).tolist()))
