"""What methods share that learn on some classes and are tested on new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.graph import Graph
from atoll.methods.base import Info, initial_model
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.optimizers.fit import adapt
from atoll.options import option
from atoll.rng import stream
from atoll.tree import Kinds, Params, replicated


@dataclass(frozen=True, kw_only=True)
class NewDomain(GlobalModel):
    """A global model that a few labelled nodes adapt to a task (GraphFL, Section 5.1.3).

    With ``new_classes = K0`` above 0 the last K0 classes are new (partition ``label-domains``). The
    classifier tells K0 classes apart, and what they are differs from client to client and from
    training to testing: a client's own classes among the old ones are numbered 0 to K0 - 1, and so
    are the new ones. Nodes of new classes are not trained on. With ``new_classes = 0`` there is one
    task, all classes.

    ``numbering``: the paper draws each client's classes at random and does not say how they are
    numbered. ``drawn``, the default, numbers them in random order, by each client's own coins:
    which output is which class can then be learnt from support nodes only. ``sorted`` numbers them
    in the order of the graph's classes: a low class has a low number everywhere, which a model can
    learn by heart instead, and does, to the harm of new classes.

    To be scored, each client adapts the global model by ``adapt_steps`` steps of gradient descent
    at rate ``alpha``, without dropout: on its support nodes for its training and validation scores,
    and on its labelled nodes of new classes for its test score.
    """

    tasks = ("nodes",)

    new_classes: int = option(0, at_least=0)
    alpha: float = option(0.5, above=0)
    adapt_steps: int = option(15, at_least=0)
    numbering: Literal["drawn", "sorted"] = "drawn"
    evaluates: Literal["global"] = "global"

    def start(self, info: Info, seed: int) -> Kinds:
        if self.new_classes > info.classes // 2:
            raise AtollError(
                f"method.new_classes is {self.new_classes}; of {info.classes} classes at most "
                f"{info.classes // 2} can be new while as many are trained on."
            )
        return super().start(info, seed)

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        usual = super().remarks(server, concluded)
        if self.new_classes:
            return usual
        return ["no class was new, so each client adapted the model to the classes it was trained "
                "on; set method.new_classes, with the partition label-domains.",
                *usual]  # fmt: skip

    def initial_model(self, info: Info | Cohort, seed: int) -> Params:
        """The initial model that is trained."""
        classes = self.new_classes or info.classes
        return initial_model(self.model, info.features, classes, info.dtype, seed)

    def view(self, client: Client) -> Client:
        """The clients at their tasks in training."""
        return client.on(self.old_tasks(client.cohort, client.rng.seed))

    @client_step
    def evaluate(self, client: Client, model: Params) -> Reply:
        cohort, seed = client.cohort, client.rng.seed
        theta = self.transferred({name: p[0] for name, p in model.items()}, cohort, seed)
        columns = self.adapted_scores(theta, client.on(self.old_tasks(cohort, seed)))
        if self.new_classes:
            new = self.adapted_scores(theta, client.on(self.new_tasks(cohort)))
            # Training and validation scores of the old task, the test score of the new one.
            columns = {n: torch.cat([c[:, :2], new[n][:, 2:]], dim=1) for n, c in columns.items()}
        return Reply(metric=columns)

    def adapted_scores(self, theta: Params, task: Client) -> Params:
        """Scores of each client's model once it is adapted to its training nodes."""
        cohort, theta_K = task.cohort, replicated(theta, task.k)
        # Adapting is plain gradient descent, whatever the optimizer in training.
        theta_K = adapt(self.task, self.model, theta_K, cohort, self.alpha, self.adapt_steps)
        return task.on(cohort.k_hop(self.model.reach, "train", "val", "test")).scores(theta_K)

    def transferred(self, theta: Params, cohort: Cohort, seed: int) -> Params:
        """What is adapted to a task, made of the model that was trained."""
        return theta

    def old_tasks(self, cohort: Cohort, seed: int) -> Cohort:
        """The clients' tasks in training: support nodes train, query nodes validate."""

        def numbered() -> Cohort:
            return cohort.relabelled(
                [
                    old_task(graph, self.new_classes, self._coins(seed, client))
                    for client, graph in zip(cohort.clients, cohort.graphs, strict=True)
                ]
            )

        return cohort.cached(f"old tasks {self.new_classes} {self.numbering} {seed}", numbered)

    def new_tasks(self, cohort: Cohort) -> Cohort:
        """The clients' tasks in testing."""

        def numbered() -> Cohort:
            return cohort.relabelled([new_task(g, self.new_classes) for g in cohort.graphs])

        return cohort.cached(f"new tasks {self.new_classes}", numbered)

    def _coins(self, seed: int, client: int) -> np.random.Generator | None:
        return stream(seed, client, "classes") if self.numbering == "drawn" else None


def old_task(graph: Graph, new_classes: int, coins: np.random.Generator | None = None) -> Graph:
    """A client's task in training: its own old classes, numbered from 0 in order or by coins."""
    if not new_classes:
        return graph
    y, new = _task_labels(graph, new_classes, coins)
    return graph.relabelled(y=y, train=graph.train & ~new, val=graph.val & ~new, name=graph.name)


def new_task(graph: Graph, new_classes: int) -> Graph:
    """A client's task in testing: the new classes, numbered from 0."""
    y, new = _task_labels(graph, new_classes, None)
    return graph.relabelled(y=y, train=graph.train & new, val=graph.val & new, name=graph.name)


def _task_labels(
    graph: Graph, new_classes: int, coins: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """Each node's number in its task, old or new, and which nodes are new."""
    first_new = graph.classes - new_classes
    new = graph.y >= first_new
    classes = np.unique(graph.y[(graph.train | graph.val) & ~new])
    if len(classes) > new_classes:
        raise AtollError(
            f"{graph.name} trains on {len(classes)} classes besides the new ones, but "
            f"method.new_classes is {new_classes}; use the partition 'label-domains' with as many."
        )
    if coins is not None:
        classes = coins.permutation(classes)
    number = np.full(graph.classes + 1, -1)  # the last one is for unknown labels
    number[classes] = np.arange(len(classes))
    number[first_new : graph.classes] = np.arange(new_classes)
    labels: np.ndarray = number[graph.y]
    return labels, new
