"""One-shot personalised federated graph learning."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.graph import Graph, make_graph
from atoll.methods.base import Info, Method, register
from atoll.methods.client import Client
from atoll.methods.o_pfgl.statistics import class_sums, moments
from atoll.methods.o_pfgl.synthetic import Synthetic, Target, Weights, fitted
from atoll.methods.o_pfgl.tuning import class_trust, divergence, label_shares, trained
from atoll.options import option
from atoll.tasks.node_loss import nll_of_targets
from atoll.tasks.nodes import NodeClassification
from atoll.tree import Kinds, Params, replicated


@register("o-pfgl")
class OpFGL(Method):
    """One round: class statistics up, a synthetic graph down (O-pFGL, Yan et al., 2025).

    1. **Clients** send, for every class, the number of their training nodes and the sum of
       ``[X, PX, ..., P^hops X]`` over them. The server sees the sums over clients only, so the
       method runs under secure aggregation. Of a class with fewer than ``floor`` training nodes
       a client sends nothing: the sum over one node is that node.
    2. **The server** fits a graph of ``nodes_per_class`` nodes per class to the class means: with
       features Z and edges weighed by a small network of both ends, it minimises
       ``alignment sum_c (N_c/N) MSE_c + smoothness S`` (:mod:`atoll.methods.o_pfgl.synthetic`).
       With several nodes per class, deviations are fitted as well, for which clients also send sums
       of squares. A class that nobody sent is not in the graph.
    3. **Clients** train the model on that graph, each for as long as its own validation nodes say
       (the step ``learn``), and then on their own graph (``tune``), with
       ``CE + (1/n) sum_i gamma_i KL(teacher_i || model_i)``, where the teacher is the model before
       tuning. ``gamma_i`` is ``gamma sum_c Y_ic / (1 + ln(1 + h_c))``, held between ``gamma_min``
       and ``gamma_max``: Y are training labels spread ``spread_steps`` times over the graph, h_c
       says how many well-placed training nodes of class c the client has. Classes it knows little
       of stay close to the teacher. Without ``personal`` nobody tunes.

    **Rounds.** All this happens in the first round, after which the method is finished: ``rounds``
    has no effect, nor have ``epochs`` and ``optimizer.lr``. ``steps`` bounds the steps of each of
    the two trainings, at ``learn_lr`` and ``tune_lr``; the optimizer's kind and weight decay count.

    The paper's settings (its code): a GCN of 64 hidden units without dropout, ``tune_lr`` 5e-5
    (PubMed 1e-3), gamma 0.2 (PubMed 1.0), gamma_max 0.15 (CiteSeer 0.2, PubMed 0.1), spreading 2
    times with 0.9 (PubMed 4 with 0.6), no weight decay, patience 10 (PubMed 5).

    Departures and readings:

    - Means, deviations and counts of every client travel in the released code, in the clear; sums
      of them say the same of the union. Its deviations are divided by the number of nodes less that
      of clients, ours by the number of nodes less one.
    - With one node per class it computes deviations and does not use them. Here they are not sent.
    - It also counts nodes with confident spread labels of a client's ``topk`` best-known classes as
      labelled ones. That is left out: the statistics are those of real labels.
    - In it, a class that nobody has is a random node that the model learns from.
    - Other models than the clients' common one ("heterogeneous" clients) are not offered.
    """

    paper = ("o-pfgl/cora",)
    tasks = ("nodes",)

    hops: int = option(1, at_least=1)
    nodes_per_class: int = option(1, at_least=1)
    floor: int = option(2, at_least=1)
    fit_steps: int = option(3000, at_least=1)
    feature_lr: float = option(5e-3, above=0)
    adjacency_lr: float = option(1e-3, above=0)
    alignment: float = option(10.0, at_least=0)
    smoothness: float = option(0.1, at_least=0)
    threshold: float = option(0.01, at_least=0, at_most=1)
    steps: int = option(3000, at_least=1)
    every: int = option(100, at_least=1)
    patience: int = option(10, at_least=1)
    learn_lr: float = option(1e-4, above=0)
    tune_lr: float = option(5e-5, above=0)
    gamma: float = option(0.2, at_least=0)
    gamma_min: float = option(0.0, at_least=0)
    gamma_max: float = option(0.15, at_least=0)
    spread_steps: int = option(2, at_least=0)
    spread_alpha: float = option(0.9, at_least=0, at_most=1)
    personal: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma_min > self.gamma_max:
            raise AtollError(
                f"method.gamma_min ({self.gamma_min:g}) is above method.gamma_max "
                f"({self.gamma_max:g}); lower it."
            )

    def start(self, info: Info, seed: int) -> Kinds:
        like = torch.zeros(info.classes, (1 + self.hops) * info.features, dtype=info.dtype)
        statistics = {"count": torch.zeros(info.classes, dtype=torch.float64), "sum": like}
        squares = {"square": like.clone()} if self.nodes_per_class > 1 else {}
        return {"statistics": statistics | squares, "done": {"rounds": torch.tensor(0)}}

    def join(self, client: Client) -> Kinds:
        model = self.initial_model(client.cohort, client.rng.seed)
        return {"model": replicated(model, client.k)}

    def finished(self, server: Kinds) -> bool:
        return bool(server["done"]["rounds"] > 0)

    def hurried(self) -> Method:
        """With a few steps: what is sent does not depend on how many there are."""
        return replace(self, fit_steps=min(self.fit_steps, 20), steps=min(self.steps, 20))

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        if self.finished(server):
            return server
        total = fed.sum("describe", expect={"statistics": server["statistics"]})
        sums = {name: total.count * v for name, v in total.mean["statistics"].items()}
        features = sums["sum"].shape[1] // (1 + self.hops)
        classes, graph = self.synthesised(sums, features, fed.rng("synthetic graph"))
        y = torch.repeat_interleave(classes, self.nodes_per_class)
        synthetic = {"x": graph.x, "adjacency": graph.adjacency, "y": y}
        fed.ask("learn", shared={"synthetic": synthetic}, expect={})
        if self.personal:
            fed.ask("tune", expect={})
        return {"statistics": sums, "synthetic": synthetic, "done": {"rounds": torch.tensor(1)}}

    def synthesised(
        self, sums: Mapping[str, Tensor], features: int, rng: np.random.Generator
    ) -> tuple[Tensor, Synthetic]:
        """The classes that somebody has, and the graph that stands for them."""
        classes = torch.nonzero(sums["count"] > 0).flatten()
        if not len(classes):
            raise AtollError(
                f"no client has {self.floor} training nodes of any class; lower method.floor."
            )
        count, squares = sums["count"][classes], sums.get("square")
        mean, deviation = moments(
            count, sums["sum"][classes], None if squares is None else squares[classes]
        )
        share = (count / count.sum()).to(mean.dtype)
        weights = Weights(self.alignment, self.smoothness, self.threshold)
        return classes, fitted(
            Target(mean, deviation, share),
            self.nodes_per_class,
            features,
            self.fit_steps,
            self.feature_lr,
            self.adjacency_lr,
            weights,
            rng,
        )

    @client_step
    def describe(self, client: Client) -> Reply:
        squares = self.nodes_per_class > 1
        return Reply(statistics=class_sums(client.cohort, self.hops, self.floor, squares))

    @client_step
    def learn(self, client: Client, synthetic: dict[str, Any]) -> Reply:
        """Train on the synthetic graph; each client keeps what its validation nodes like best."""
        graphs = _graphs(synthetic, client.cohort.classes)
        cohort = Cohort(graphs, client.cohort.clients, client.dtype)

        def loss(w: Params) -> Tensor:
            return self.task.loss(self.model, w, cohort, client.rng)

        client.state["model"] = self.descended(client, loss, self.learn_lr)
        return Reply()

    @client_step
    def tune(self, client: Client) -> Reply:
        """Train on the client's own graph, held to the model it begins with."""
        cohort = client.cohort
        with torch.no_grad():
            teacher = self.model.apply(client.state["model"], cohort)
            strength = self.strength(cohort)
        rows = cohort.rows("train")
        assert isinstance(self.task, NodeClassification)
        balance = self.task.class_weight

        def loss(w: Params) -> Tensor:
            logits = self.model.apply(w, cohort, client.rng)
            own = nll_of_targets(logits[rows], cohort, balance)
            return own + divergence(logits, teacher, strength, cohort)

        client.state["model"] = self.descended(client, loss, self.tune_lr)
        return Reply()

    def strength(self, cohort: Cohort) -> Tensor:
        """``gamma_i`` of every node ``[N]``."""
        shares = label_shares(cohort, self.spread_steps, self.spread_alpha)
        trust = class_trust(cohort)[cohort.batch]
        return (self.gamma * (shares * trust).sum(1)).clamp(self.gamma_min, self.gamma_max)

    def descended(self, client: Client, loss: Any, lr: float) -> Params:
        optimizer = replace(self.optimizer, lr=lr)
        before = client.state["model"]
        return trained(client, before, loss, optimizer, self.steps, self.every, self.patience)

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        if not self.finished(server):
            return []
        missing = torch.nonzero(server["statistics"]["count"] == 0).flatten().tolist()
        if not missing:
            return []
        return [
            f"class {', '.join(map(str, missing))} is not in the synthetic graph, because no "
            f"client has method.floor ({self.floor}) training nodes of it; lower the floor or use "
            f"fewer clients."
        ]


def _graphs(synthetic: Mapping[str, Tensor], classes: int) -> list[Graph]:
    """The synthetic graph of each client, as it was sent."""
    x_K, a_K, y_K = (synthetic[name] for name in ("x", "adjacency", "y"))
    if x_K.stride(0) == 0:  # sent to all alike
        return [_graph(x_K[0], a_K[0], y_K[0], classes)] * len(x_K)
    return [_graph(x, a, y, classes) for x, a, y in zip(x_K, a_K, y_K, strict=True)]


def _graph(x: Tensor, adjacency: Tensor, y: Tensor, classes: int) -> Graph:
    a = adjacency.double().cpu().numpy()
    target, source = np.nonzero(a)
    graph = make_graph(
        x.cpu().numpy(),
        np.stack([source, target]),
        y.cpu().numpy(),
        classes=classes,
        name="synthetic",
    )
    weights = a[graph.edges[1], graph.edges[0]]
    return replace(graph, weights=weights, train=np.ones(len(x), dtype=bool))
