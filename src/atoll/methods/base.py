"""What a method is: a server's round in plain Python, and steps that clients perform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar, dataclass_transform

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.federation.calls import Call, Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.validation import Batch
from atoll.leaves import Ragged
from atoll.methods.border import perform
from atoll.methods.client import Client
from atoll.models.base import Model
from atoll.models.gcn import GCN
from atoll.optimizers.adam import Adam
from atoll.optimizers.base import Optimizer
from atoll.optimizers.fit import Draw
from atoll.options import check_options, option
from atoll.registry import Registry
from atoll.rng import CohortRng, server_stream
from atoll.tasks.base import Task
from atoll.tasks.nodes import NodeClassification
from atoll.tree import Kinds, Params, Tree, flat, nested, replicated

methods: Registry[Method] = Registry("method", "atoll.methods", lambda: Method, "atoll.methods")
M = TypeVar("M", bound="Method")

# Kinds of tensors that may never leave a client, whatever the method.
PRIVATE = frozenset({"optimizer", "features", "labels", "edges"})
# What one number looks like in a reply.
SCALAR = torch.zeros((), dtype=torch.float64)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, option))
def register(name: str) -> Callable[[type[M]], type[M]]:
    """Make a class a method with a name: a frozen dataclass whose fields are its options."""

    if not isinstance(name, str):
        raise TypeError("a method is registered under a name: @register('fed-mine')")

    def add(cls: type[M]) -> type[M]:
        return methods.register(name)(dataclass(frozen=True, kw_only=True)(cls))  # type: ignore[return-value]

    return add


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

    @property
    def anchor_numbers(self) -> Ragged:
        """The anchors as a table with one block per client, empty where there are none."""
        if not self.anchors:
            return Ragged.empty(self.clients, dtype=torch.int64)
        return Ragged.of([of_numpy(numbers) for numbers in self.anchors])


@dataclass(frozen=True, kw_only=True)
class Method:
    """A federated method. Its fields are its hyper-parameters and nothing else.

    States are kinds of leaves, ``{"model": {"conv1.weight": ...}}``. What a method needs or forbids
    is a class attribute where it is always so, a property where it depends on the options.
    """

    registered_name: ClassVar[str]
    # What the method can be trained for.
    tasks: ClassVar[tuple[str, ...]] = ("nodes", "links", "graphs")
    # Whether local training may be in mini-batches, where a task has them.
    takes_batches: ClassVar[bool] = True
    # Whether these may be of nodes: its clients then look at their graphs in training through
    # ``client.fit`` or ``client.loss(w, training=True)`` alone, and at no other graph than theirs.
    samples_nodes: ClassVar[bool] = False

    # Recipes with its paper's settings, for ``--settings paper``; the first with the data counts.
    paper: ClassVar[tuple[str, ...]] = ()
    # How graphs are cut for it where nobody says how; empty: as for any other.
    usual_partition: ClassVar[str] = ""

    # The figure that says after which round it has done what it is for, if that comes late.
    complete_after: ClassVar[str] = ""

    # Whether clients train on the task's loss, so that its class weights have an effect.
    weighs_classes: ClassVar[bool] = True

    task: Task = field(default_factory=NodeClassification)
    model: Model = field(default_factory=GCN)
    optimizer: Optimizer = field(default_factory=Adam)
    epochs: int = option(1, at_least=1)
    keep_optimizer: bool = True

    @property
    def pooled(self) -> bool:
        """Trains on the whole graph instead of its pieces: possible in a simulation only."""
        return False

    @property
    def only_simulated(self) -> str:
        """Why it can't be deployed as it is set up, if it can't."""
        return ""

    @property
    def needs_labels(self) -> bool:
        """Every client must have something to train on."""
        return True

    @property
    def needs_anchors(self) -> bool:
        """Parties that hold the same entities learn which ones before the first round."""
        return False

    @property
    def needs_network(self) -> bool:
        """The server learns which clients' entities are linked."""
        return False

    @property
    def private(self) -> frozenset[str]:
        """Kinds of tensors that may never leave a client."""
        return PRIVATE

    @property
    def recurring(self) -> Mapping[str, int]:
        """Steps that clients perform again after so many rounds, and not in between."""
        return {}

    def __post_init__(self) -> None:
        check_options("method", self)
        if task_kind(self.task) not in self.tasks and self.tasks != Method.tasks:
            raise AtollError(
                f"{self.registered_name} can't be trained for the task "
                f"'{self.task.registered_name}'; it knows {', '.join(self.tasks)}."
            )
        self.task.refuse_model(self.model)
        if getattr(self.task, "batch", 0) and not self.takes_batches:
            raise AtollError(
                f"{self.registered_name} counts its local steps and takes them on full batches; "
                f"set task.batch=0."
            )
        if isinstance(self.task, NodeClassification) and self.task.batch and not self.samples_nodes:
            can = ", ".join(sorted(n for n in methods if methods[n].samples_nodes))
            raise AtollError(
                f"{self.registered_name} needs its clients' whole graphs in training; set "
                f"task.batch=0, or choose one of {can}."
            )
        if not self.weighs_classes and getattr(self.task, "class_weight", "none") != "none":
            raise AtollError(
                f"{self.registered_name} trains on a loss of its own, which knows no class "
                f"weights; set task.class_weight=none."
            )

    @property
    def scorer(self) -> Method:
        """The method whose :meth:`evaluate` scores clients: itself, unless it wraps another."""
        return self

    @property
    def scores_plainly(self) -> bool:
        """Whether a client's scores are those of a model on nodes, as :meth:`evaluate` has it."""
        return type(self.scorer).evaluate is Method.evaluate

    @property
    def used_kinds(self) -> frozenset[str]:
        """Kinds of a client's state that its scores depend on; empty: not known, so all."""
        plain = self.scores_plainly and type(self).view is Method.view
        return frozenset({"model"} if plain else ())

    def start(self, info: Info, seed: int) -> Kinds:
        """The server's first state."""
        return {}

    def join(self, client: Client) -> Kinds:
        """The clients' first private state; every leaf has a leading K axis."""
        return {}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        """One round of the server, numbered from 1. Returns its next state."""
        raise NotImplementedError("abstract")

    def heaviest(self, nodes: int, labelled: int) -> float:
        """The most that a client may count with so many nodes and things to train on."""
        return float(max(nodes, labelled, 1))

    def finished(self, server: Kinds) -> bool:
        """Whether training has ended by itself, so that further rounds would change nothing."""
        return False

    def hurried(self) -> Method:
        """The same method with its later phases within the first rounds, to see what they send."""
        return self

    def measure(self, fed: Federation, server: Kinds) -> Replies:
        """Ask every client how well the model it would use now does on its own nodes."""
        sent = self.sent_to_score(server)
        shared, each = sent.get("shared"), sent.get("each")
        return fed.ask("evaluate", shared=shared, each=each, expect=self.task.blank_scores())

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        """What clients are sent to be scored with: ``shared`` with all, or ``each`` its own row."""
        return {}

    def similarities(self, server: Kinds) -> Tensor | None:
        """How alike the server took clients to be in a round ``[K, K]``, to be drawn; None: it does
        not compare them."""
        return None

    def conclude(self, fed: Federation, server: Kinds) -> Replies | None:
        """After the last round: further figures of each client, as scalars of kind ``metric``."""
        return None

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        """What the method is for and did not happen in a run: one sentence each, with the remedy.

        ``server`` is its last state, ``concluded`` what :meth:`conclude` gave.
        """
        return []

    @client_step
    def evaluate(self, client: Client, model: Params | None = None) -> Reply:
        """Score the model sent along, or else the client's own."""
        own = client.state["model"]
        return Reply(metric=self.view(client).scores(own if model is None else {**own, **model}))

    def public(self, params: Params) -> Params:
        """The part of a model that is shared, as it is or mixed: by default all of it."""
        return params

    def view(self, client: Client) -> Client:
        """The clients on the graphs that they train on and are scored on: by default their own."""
        return client

    def local_training(self, client: Client, model: Params) -> Params:
        """What a client makes of a model by training it on its own data."""
        return self.view(client).fit(model)

    def draw(self, cohort: Cohort, rng: CohortRng) -> Draw | None:
        """How the part of the data is drawn that a training step sees; None: steps see all."""
        return None

    def initial_model(self, info: Info | Cohort, seed: int) -> Params:
        """The common initial model: it follows from the seed, so nobody has to send it."""
        return initial_model(self.model, info.features, info.classes, info.dtype, seed)

    def trainable(self, params_K: Params) -> Kinds:
        """A client's model and its optimizer before the first round."""
        return {"model": params_K, "optimizer": self.optimizer.init(params_K)}

    def first_state(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """The clients' first state, flat, as hosts keep it."""
        return flat(self.join(Client(self, cohort, rng, nested({}))))

    def perform(
        self, call: Call, row: Tree, cohort: Cohort, state: Tree, rng: CohortRng
    ) -> tuple[Tree, Batch]:
        """A step as hosts ask for it: flat trees here, kinds within the step."""
        return perform(self, call, row, cohort, state, rng)


def task_kind(task: Task) -> str:
    """A task's name; one of the user's own counts as the one it derives from."""
    own = (c for c in type(task).__mro__ if c.__module__.startswith("atoll."))
    return next((getattr(c, "registered_name", "") for c in own), "")


@dataclass(frozen=True, kw_only=True)
class Alone(Method):
    """Training without communication, which ``local`` and ``centralized`` share."""

    def public(self, params: Params) -> Params:
        return {}

    def join(self, client: Client) -> Kinds:
        model = self.initial_model(client.cohort, client.rng.seed)
        return self.trainable(replicated(model, client.k))

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        fed.ask("train", expect={})
        return server

    @client_step
    def train(self, client: Client) -> Reply:
        self.local_training(client, client.state["model"])
        return Reply()


def initial_model(
    model: Model, features: int, classes: int, dtype: torch.dtype, seed: int
) -> Params:
    """The common initial model of given sizes."""
    params = model.init(features, classes, server_stream(seed, 0, "initial model"))
    return {name: p.to(dtype) for name, p in params.items()}
