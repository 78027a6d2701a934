"""Pseudo-labels for the nodes that have none."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.graph import Graph, node_mask
from atoll.methods.base import Info, Method, initial_model, methods
from atoll.rng import CohortRng
from atoll.tree import Ragged, Tree, spread

_FOLLOWS_INNER = ("pooled", "only_simulated", "needs_labels", "needs_anchors", "needs_network")


@methods.register("self-training")
@dataclass(frozen=True, kw_only=True)
class SelfTraining(Method):
    """Any method, on training nodes that each client has added pseudo-labels to.

    GraphFL's Section 4.3 (Wang et al., 2020). Before the first round each client trains a model on
    its own labels alone, for ``epochs`` steps from the common initial model, and predicts its
    unlabelled nodes. Of the nodes predicted to be in a class, the ``pseudo`` most confident ones
    (the largest softmax) join its training nodes under that class. Then ``inner`` is run on what
    the clients have now:

        [method]
        name = "self-training"
        pseudo = 10
        inner = { name = "graphfl", fraction = 0.2, epochs = 15 }

    Model and optimizer are those of the experiment, for both. Pseudo-labels never leave a client.

    - Unlabelled are all nodes outside a client's training and validation nodes, test nodes
      included: to the client they have no labels. Scores are taken on the original labels.
    - Pseudo-labels are added to the training (support) nodes; validation (query) nodes stay true.
      The paper does not say how its augmented training set is halved.
    - ``labels`` says what the local model is trained on: the training nodes (``train``), or the
      validation nodes as well (``all``).
    - A class that the local model never predicts gets no pseudo-labels, and one that it seldom
      predicts gets fewer than asked for.

    ``pseudo_precision`` among a run's figures is the share of pseudo-labels that are right, among
    the nodes whose true label the data has (Table 3).
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)

    inner: Method = field(default_factory=lambda: methods["fed-avg"]())
    pseudo: int = 10
    labels: Literal["train", "all"] = "train"
    epochs: int = 200

    def __post_init__(self) -> None:
        if isinstance(self.inner, SelfTraining):
            raise AtollError("method.inner is 'self-training' itself; name another method.")
        if self.pseudo < 0:
            raise AtollError(f"method.pseudo is {self.pseudo}; it can't be negative.")
        parts = {"task": self.task, "model": self.model, "optimizer": self.optimizer}
        object.__setattr__(self, "inner", replace(self.inner, **parts))  # type: ignore[arg-type]
        for name in _FOLLOWS_INNER:
            object.__setattr__(self, name, getattr(self.inner, name))
        object.__setattr__(self, "private", self.inner.private | {"pseudo"})
        super().__post_init__()

    def start(self, info: Info, seed: int) -> Tree:
        return self.inner.start(info, seed)

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        return self.inner.round(fed, state, r)

    def measure(self, fed: Federation, state: Tree) -> Replies:
        return self.inner.measure(fed, state)

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        pseudo = self._pseudo_labels(cohort, rng)
        return self.inner.join(self._augmented(cohort, pseudo), rng) | pseudo

    def __getattr__(self, name: str) -> Any:
        """The inner method's steps, performed on the augmented training nodes."""
        step = getattr(self.__dict__.get("inner"), name, None)
        if not getattr(step, "is_client_step", False):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        assert step is not None
        return self._around(step, augmented=True)

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Scores are taken on the true labels."""
        step = self._around(self.inner.evaluate, augmented=False)
        return step(cohort, state, shared, each, rng)

    def _around(
        self, step: Callable[..., tuple[Tree, Reply]], augmented: bool
    ) -> Callable[..., tuple[Tree, Reply]]:
        def performed(
            cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
        ) -> tuple[Tree, Reply]:
            own = {name: state[name] for name in ("pseudo/nodes", "pseudo/labels")}
            rest = {name: leaf for name, leaf in state.items() if name not in own}
            seen = self._augmented(cohort, own) if augmented else cohort
            rest, reply = step(seen, rest, shared, each, rng)
            return rest | own, reply

        return client_step(performed)

    def conclude(self, fed: Federation, state: Tree) -> Replies | None:
        blank = torch.zeros((), dtype=torch.float64)
        names = ("metric/pseudo_precision", "metric/pseudo_nodes")
        own = fed.ask("count_right", expect=dict.fromkeys(names, blank))
        further = self.inner.conclude(fed, state)
        if further is None or further.clients != own.clients:
            return own
        return replace(own, body=own.body | further.body)

    @client_step
    def count_right(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        nodes_K, labels_K = _blocks(state)
        counted = []
        for graph, nodes, labels in zip(cohort.graphs, nodes_K, labels_K, strict=True):
            known = graph.y[nodes] >= 0
            right = (graph.y[nodes] == labels)[known]
            counted.append((right.mean() if known.any() else 0.0, len(nodes)))
        precision_K, count_K = torch.tensor(counted, dtype=torch.float64).unbind(1)
        body: Tree = {"metric/pseudo_precision": precision_K, "metric/pseudo_nodes": count_K}
        return state, Reply(body)

    def _pseudo_labels(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """Each client's chosen nodes and their predicted classes."""
        known = cohort.relabelled([self._known(g) for g in cohort.graphs])
        model = initial_model(self.model, cohort.features, cohort.classes, cohort.dtype, rng.seed)
        params_K = self.fit(spread(model, cohort.k), known, {}, rng).params_K
        with torch.no_grad():
            chances = self.model.apply(params_K, cohort).softmax(1)
        by_client = zip(torch.split(chances, list(cohort.sizes)), cohort.graphs, strict=True)
        chosen = [
            most_confident(own.numpy(), graph.train | graph.val, self.pseudo)
            for own, graph in by_client
        ]
        sizes = tuple(len(nodes) for nodes, _ in chosen)
        nodes, labels = (torch.from_numpy(np.concatenate(c)) for c in zip(*chosen, strict=True))
        return {"pseudo/nodes": Ragged(nodes, sizes), "pseudo/labels": Ragged(labels, sizes)}

    def _known(self, graph: Graph) -> Graph:
        if self.labels == "train":
            return graph
        return graph.relabelled(
            y=graph.y, train=graph.train | graph.val, val=graph.val, name=graph.name
        )

    def _augmented(self, cohort: Cohort, pseudo: Tree) -> Cohort:
        graphs = []
        for graph, nodes, labels in zip(cohort.graphs, *_blocks(pseudo), strict=True):
            y = graph.y.copy()
            y[nodes] = labels
            train = graph.train | node_mask(nodes, graph.nodes)
            graphs.append(graph.relabelled(y=y, train=train, val=graph.val, name=graph.name))
        return cohort.relabelled(graphs)


def most_confident(
    chances: np.ndarray, labelled: np.ndarray, each: int
) -> tuple[np.ndarray, np.ndarray]:
    """The nodes without labels most surely in each class, and those classes, by node number.

    ``chances [n, classes]`` are a model's softmax; at most ``each`` nodes a class, of those whose
    likeliest class it is. Of equals the first node is taken.
    """
    predicted = chances.argmax(1)
    confidence = np.where(labelled, -1.0, chances.max(1))
    chosen = []
    for label in range(chances.shape[1]):
        members = np.flatnonzero((predicted == label) & ~labelled)
        chosen.append(members[np.argsort(-confidence[members], kind="stable")[:each]])
    nodes = np.sort(np.concatenate(chosen))
    return nodes, predicted[nodes]


def _blocks(tree: Tree) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Each client's pseudo-labelled nodes, and their labels."""
    columns = []
    for name in ("pseudo/nodes", "pseudo/labels"):
        leaf = tree[name]
        assert isinstance(leaf, Ragged)
        columns.append([block.numpy() for block in leaf.blocks()])
    return columns[0], columns[1]
