"""What a method is: a server's round in plain Python, and steps that clients perform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Replies, Reply, Total, client_step
from atoll.models.base import Model
from atoll.models.gcn import GCN
from atoll.optimizers.adam import Adam
from atoll.optimizers.base import Optimizer
from atoll.optimizers.fit import Draw, Penalty, fit
from atoll.registry import Registry
from atoll.rng import CohortRng, server_stream
from atoll.tasks.base import Task
from atoll.tasks.nodes import NodeClassification
from atoll.tree import Leaf, Params, Tree, prefixed, spread, under

methods: Registry[Method] = Registry("method", "atoll.methods")


@dataclass(frozen=True)
class Info:
    """What the server knows of the federation before it starts."""

    clients: int
    features: int
    classes: int
    dtype: torch.dtype
    # Each client's anchors as the server numbers them, for methods with ``needs_anchors``.
    anchors: tuple[np.ndarray, ...] = ()
    # Links between clients [K, K], for methods with ``needs_network``.
    network: sparse.csr_array | None = None


class Fitted(NamedTuple):
    """What local training leaves: parameters, the client's next state, the losses it began with."""

    params_K: Params
    state: Tree
    loss_K: Tensor


@dataclass(frozen=True, kw_only=True)
class Method:
    """A federated method. Its fields are its hyper-parameters and nothing else."""

    registered_name: ClassVar[str]
    # Trains on the whole graph instead of the parties' pieces: possible in a simulation only.
    pooled: ClassVar[bool] = False
    # Why it can't be deployed as it is set up, if it can't.
    only_simulated: ClassVar[str] = ""
    # What the method can be trained for.
    tasks: ClassVar[tuple[str, ...]] = ("nodes", "links")
    # Every client must have something to train on.
    needs_labels: ClassVar[bool] = True
    # Parties that hold the same entities are told which ones before the first round.
    needs_anchors: ClassVar[bool] = False
    # The server is told which clients' entities are linked.
    needs_network: ClassVar[bool] = False
    # Kinds of tensors that may never leave a client.
    private: ClassVar[frozenset[str]] = frozenset({"optimizer", "features", "labels", "edges"})

    task: Task = field(default_factory=NodeClassification)
    model: Model = field(default_factory=GCN)
    optimizer: Optimizer = field(default_factory=Adam)
    epochs: int = 1
    keep_optimizer: bool = True

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise AtollError(f"method.epochs is {self.epochs}; a client needs at least 1 a round.")
        if self.task.registered_name not in self.tasks:
            raise AtollError(
                f"{self.registered_name} can't be trained for the task "
                f"'{self.task.registered_name}'; it knows {', '.join(self.tasks)}."
            )

    def start(self, info: Info, seed: int) -> Tree:
        """The server's first state."""
        return {}

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """The clients' first private state; every leaf has a leading K axis."""
        return {}

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        """One round of the server, numbered from 1. Returns its next state."""
        raise NotImplementedError("abstract")

    def finished(self, state: Tree) -> bool:
        """Whether training has ended by itself, so that further rounds would change nothing."""
        return False

    def measure(self, fed: Federation, state: Tree) -> Replies:
        """Ask every client how well the model it would use now does on its own nodes."""
        return fed.ask("evaluate", expect=self.task.blank_scores())

    def conclude(self, fed: Federation, state: Tree) -> Replies | None:
        """After the last round: further figures of each client, as scalars ``metric/NAME [K]``."""
        return None

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Score the model sent along, or else the client's own."""
        sent = under(shared, "model")
        # One model on one graph is one pass, whoever holds it.
        copies = 1 if cohort.one_graph else cohort.k
        params_K = spread(sent, copies) if sent else under(state, "model")
        return state, Reply(self.scores(params_K, cohort))

    def loss(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        """Each client's training loss on the task ``[K]``."""
        return self.task.loss(self.model, params_K, cohort, rng)

    def scores(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tree:
        """How well each client's model does on the task."""
        with torch.no_grad():
            return self.task.scores(self.model, params_K, cohort)

    def fit(
        self,
        params_K: Params,
        cohort: Cohort,
        state: Mapping[str, Leaf],
        rng: CohortRng,
        penalty: Penalty | None = None,
        draw: Draw | None = None,
    ) -> Fitted:
        """Local training on the task's loss, plus a penalty per client ``[K]`` if there is one."""
        params_K, optimizer_K, loss_K = fit(
            self.task,
            self.model,
            self.optimizer,
            params_K,
            cohort,
            epochs=self.epochs,
            rng=rng,
            state_K=under(state, "optimizer") if self.keep_optimizer else {},
            penalty=penalty,
            draw=draw,
        )
        next_state = prefixed("model", params_K) | prefixed("optimizer", optimizer_K)
        return Fitted(params_K, next_state, loss_K)

    def new_client(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """A client's model and optimizer before the first round."""
        model = initial_model(self.model, cohort.features, cohort.classes, cohort.dtype, rng.seed)
        params_K = spread(model, cohort.k)
        return prefixed("model", params_K) | prefixed("optimizer", self.optimizer.init(params_K))


@dataclass(frozen=True, kw_only=True)
class Alone(Method):
    """Training without communication, which ``local`` and ``centralized`` share."""

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        return self.new_client(cohort, rng)

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        fed.ask("train", expect={})
        return state

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        return self.fit(under(state, "model"), cohort, state, rng).state, Reply({})


@dataclass(frozen=True, kw_only=True)
class GlobalModel(Method):
    """One model that clients train and the server averages, which FedAvg and its kin share.

    ``fraction`` of the clients take part in a round. ``evaluates`` says which model a client is
    scored with: ``local``, the one it has just trained and would go on using (as in FED-PUB's
    code), or ``global``, the new average, which is sent to every client for the purpose.

    ``weights`` says what a client counts in the average: its ``labelled`` nodes ``s_k``, or
    ``labelled-and-size``, ``s_k n_k`` with ``n_k`` all its nodes (Fed-GALA, eq. 3.2). The average
    is ``sum_k w_k theta_k / sum_k w_k``. With ``literal_weights`` it is eq. 3.2 to the letter,
    ``sum_k (s_k / s)(n_k / n) theta_k``, whose weights sum to about 1/K rather than 1.
    """

    fraction: float = 1.0
    evaluates: Literal["local", "global"] = "local"
    weights: Literal["labelled", "labelled-and-size"] = "labelled"
    literal_weights: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.fraction <= 1:
            raise AtollError(
                f"method.fraction is {self.fraction}; the share of clients a round must be above 0 "
                f"and at most 1."
            )
        if self.literal_weights and self.weights == "labelled":
            raise AtollError(
                "method.literal_weights has a meaning only with "
                "method.weights = 'labelled-and-size'; labelled nodes alone sum to one anyway."
            )

    def start(self, info: Info, seed: int) -> Tree:
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed)
        return prefixed("model", model)

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        return self.new_client(cohort, rng)

    def measure(self, fed: Federation, state: Tree) -> Replies:
        sent = prefixed("model", under(state, "model")) if self.evaluates == "global" else {}
        return fed.ask("evaluate", shared=sent, expect=self.task.blank_scores())

    def weight(self, cohort: Cohort) -> Tensor:
        """What each client counts in the average ``[K]``."""
        if self.weights == "labelled":
            return cohort.labelled
        return cohort.labelled * torch.tensor(cohort.sizes, dtype=torch.float64)

    def averaged(self, fed: Federation, total: Total, clients: Sequence[int]) -> Tree:
        """The new global model, from the sum of the models of some clients."""
        model = under(total.mean, "model")
        if self.literal_weights:
            sizes = fed.sum("sizes", to=clients, expect=_NO_SIZES)
            mean = under(sizes.mean, "size")
            labelled, nodes = (sizes.count * float(mean[what]) for what in ("labelled", "nodes"))
            model = {name: p * (total.weight / (labelled * nodes)) for name, p in model.items()}
        return prefixed("model", model)

    @client_step
    def sizes(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """How many labelled nodes and how many nodes a client has; the server sees sums only."""
        nodes = torch.tensor(cohort.sizes, dtype=torch.float64)
        return state, Reply({"size/labelled": cohort.labelled, "size/nodes": nodes})


_NO_SIZES: Tree = {
    "size/labelled": torch.zeros((), dtype=torch.float64),
    "size/nodes": torch.zeros((), dtype=torch.float64),
}


def initial_model(
    model: Model, features: int, classes: int, dtype: torch.dtype, seed: int
) -> Params:
    """The common initial model: it follows from the seed, so nobody has to send it."""
    params = model.init(features, classes, server_stream(seed, 0, "initial model"))
    return {name: p.to(dtype) for name, p in params.items()}


def pick(fed: Federation, fraction: float) -> tuple[int, ...]:
    """A random share of the clients, at least one, drawn anew each round."""
    if fraction == 1.0:
        return fed.clients
    count = max(1, round(fraction * len(fed.clients)))
    chosen = fed.rng("pick clients").choice(len(fed.clients), size=count, replace=False)
    return tuple(fed.clients[i] for i in sorted(np.asarray(chosen).tolist()))
