"""Pseudo-labels for the nodes that have none."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.federation.calls import Call, Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.validation import Batch
from atoll.graph import Graph, node_mask
from atoll.leaves import Ragged
from atoll.methods.base import SCALAR, Info, Method, methods, register
from atoll.methods.client import Client
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Kinds, Tree, kind, nested, prefixed, replicated


@register("self-training")
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

    - Where small graphs are classified, it is these that get pseudo-labels.
    - Unlabelled are all nodes outside a client's training and validation nodes, test nodes
      included: to the client they have no labels. Scores are taken on the original labels.
    - Pseudo-labels are added to the training (support) nodes; validation (query) nodes stay true.
      The paper does not say how its augmented training set is halved.
    - ``labels`` says what the local model is trained on: the training nodes (``train``), or the
      validation nodes as well (``all``).
    - A class that the local model never predicts gets no pseudo-labels, and one that it seldom
      predicts gets fewer than ``pseudo``.

    ``pseudo_precision`` among a run's figures is the share of pseudo-labels that are right, among
    the nodes whose true label the data has (Table 3).
    """

    paper = ("graphfl/figure-5",)

    tasks = ("nodes", "graphs")

    inner: Method = field(default_factory=lambda: methods["fed-avg"]())
    pseudo: int = option(10, at_least=0)
    labels: Literal["train", "all"] = "train"
    epochs: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.inner, SelfTraining):
            raise AtollError("method.inner is 'self-training' itself; name another method.")
        _ = self.wrapped  # refuses now what it can't be set up with

    @cached_property
    def wrapped(self) -> Method:
        """The inner method with the experiment's task, model and optimizer."""
        return replace(self.inner, task=self.task, model=self.model, optimizer=self.optimizer)

    @property
    def pooled(self) -> bool:
        return self.wrapped.pooled

    @property
    def only_simulated(self) -> str:
        return self.wrapped.only_simulated

    @property
    def needs_labels(self) -> bool:
        return self.wrapped.needs_labels

    @property
    def needs_anchors(self) -> bool:
        return self.wrapped.needs_anchors

    @property
    def needs_network(self) -> bool:
        return self.wrapped.needs_network

    @property
    def private(self) -> frozenset[str]:
        return self.wrapped.private | {"pseudo"}

    @property
    def recurring(self) -> Mapping[str, int]:
        return self.wrapped.recurring

    def start(self, info: Info, seed: int) -> Kinds:
        return self.wrapped.start(info, seed)

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        return self.wrapped.round(fed, server, r)

    def finished(self, server: Kinds) -> bool:
        return self.wrapped.finished(server)

    def hurried(self) -> Method:
        return replace(self, inner=self.inner.hurried())

    def measure(self, fed: Federation, server: Kinds) -> Replies:
        return self.wrapped.measure(fed, server)

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        return self.wrapped.sent_to_score(server)

    @property
    def scorer(self) -> Method:
        return self.wrapped.scorer

    def first_state(self, cohort: Cohort, rng: CohortRng) -> Tree:
        pseudo = self.pseudo_labels(cohort, rng)
        return self.wrapped.first_state(augmented(cohort, pseudo), rng) | prefixed("pseudo", pseudo)

    def perform(
        self, call: Call, row: Tree, cohort: Cohort, state: Tree, rng: CohortRng
    ) -> tuple[Tree, Batch]:
        """A step of the inner method, on the augmented training nodes; scores on true labels."""
        if call.step == "count_right":
            return super().perform(call, row, cohort, state, rng)
        own = {name: leaf for name, leaf in state.items() if kind(name) == "pseudo"}
        rest = {name: leaf for name, leaf in state.items() if name not in own}
        if call.step != "evaluate":
            cohort = augmented(cohort, nested(own)["pseudo"])
        rest, batch = self.wrapped.perform(call, row, cohort, rest, rng)
        return rest | own, batch

    def conclude(self, fed: Federation, server: Kinds) -> Replies:
        figures = {"pseudo_precision": SCALAR, "pseudo_nodes": SCALAR}
        own = fed.ask("count_right", expect={"metric": figures})
        further = self.wrapped.conclude(fed, server)
        if further is None or further.clients != own.clients:
            return own
        return own | further.kinds

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        inner = self.wrapped.remarks(server, concluded)
        if concluded is None or bool(concluded["metric"]["pseudo_nodes"].any()):
            return inner
        return [
            f"no client had a node to add a pseudo-label to; method.pseudo is {self.pseudo}, and "
            f"only nodes outside training and validation get one.",
            *inner,
        ]

    @client_step
    def count_right(self, client: Client) -> Reply:
        counted = []
        for graph, nodes, labels in labelled_graphs(client.cohort, client.state["pseudo"]):
            known = graph.y[nodes] >= 0
            right = (graph.y[nodes] == labels)[known]
            counted.append((right.mean() if known.any() else 0.0, len(nodes)))
        precision_K, count_K = torch.tensor(counted, dtype=torch.float64).unbind(1)
        return Reply(metric={"pseudo_precision": precision_K, "pseudo_nodes": count_K})

    def pseudo_labels(self, cohort: Cohort, rng: CohortRng) -> dict[str, Ragged]:
        """Each client's chosen nodes and their predicted classes."""
        known = cohort.relabelled([self.known(g) for g in cohort.graphs])
        model = replicated(self.initial_model(cohort, rng.seed), cohort.k)
        params_K = Client(self, known, rng, self.trainable(model)).fit(model)
        with torch.no_grad():
            chances = self.model.apply(params_K, cohort).softmax(1)
        by_client = zip(torch.split(chances, list(cohort.sizes)), cohort.graphs, strict=True)
        chosen = [
            most_confident(own.cpu().numpy(), ~open_to_labels(graph), self.pseudo)
            for own, graph in by_client
        ]
        nodes_K, labels_K = zip(*chosen, strict=True)
        return {
            "nodes": Ragged.of([of_numpy(nodes) for nodes in nodes_K]),
            "labels": Ragged.of([of_numpy(labels) for labels in labels_K]),
        }

    def known(self, graph: Graph) -> Graph:
        """What the local model is trained on."""
        if self.labels == "train":
            return graph
        return graph.relabelled(
            y=graph.y, train=graph.train | graph.val, val=graph.val, name=graph.name
        )


def augmented(cohort: Cohort, pseudo: Mapping[str, Any]) -> Cohort:
    """The clients with pseudo-labelled nodes among their training nodes."""
    graphs = []
    for graph, nodes, labels in labelled_graphs(cohort, pseudo):
        y = graph.y.copy()
        y[nodes] = labels
        train = graph.train | node_mask(nodes, graph.nodes)
        graphs.append(graph.relabelled(y=y, train=train, val=graph.val, name=graph.name))
    return cohort.relabelled(graphs)


def open_to_labels(graph: Graph) -> np.ndarray:
    """Where a pseudo-label may stand ``[n]``: not where a label is known, nor within a small graph
    whose label stands at its first node."""
    places: np.ndarray = node_mask(graph.first_nodes, graph.nodes) & ~(graph.train | graph.val)
    return places


def labelled_graphs(
    cohort: Cohort, pseudo: Mapping[str, Any]
) -> Iterator[tuple[Graph, np.ndarray, np.ndarray]]:
    """Each client's graph, its pseudo-labelled nodes, and their labels."""
    blocks = (pseudo["nodes"].blocks(), pseudo["labels"].blocks())
    for graph, nodes, labels in zip(cohort.graphs, *blocks, strict=True):
        yield graph, nodes.cpu().numpy(), labels.cpu().numpy()


def most_confident(
    chances: np.ndarray, labelled: np.ndarray, each: int
) -> tuple[np.ndarray, np.ndarray]:
    """The nodes without labels most surely in each class, and those classes, by node number.

    ``chances [n, classes]`` are a model's softmax; at most ``each`` nodes per class, of those whose
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
