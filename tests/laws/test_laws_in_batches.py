"""The laws in mini-batches of nodes, over every method that takes them, and their limits."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from support import assert_same

from atoll.graph import Graph
from atoll.laws import LAWS, Subject
from atoll.laws.federation import train
from atoll.methods.base import Method, methods
from atoll.models.appnp import APPNP
from atoll.models.gamlp import GAMLP
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.gin import GIN
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.tasks.nodes import NodeClassification
from small_federations import community_parties

NAMES = sorted(n for n in methods if methods[n].samples_nodes)
# Fewer than most clients have, so that they take different numbers of steps.
SAMPLERS = {
    "neighbour": NodeClassification(batch=3, fanout=(2,)),
    "every-hop": NodeClassification(batch=3, fanout=(2, 1)),
    "cluster": NodeClassification(batch=2, sampler="cluster", clusters=5),
}
CASES = [(name, "neighbour") for name in NAMES] + [
    ("fed-avg", "every-hop"),
    ("fed-avg", "cluster"),
    ("fed-pub", "cluster"),
]
ALL = NodeClassification(batch=1000, fanout=(0,))
EVERY_HOP = NodeClassification(batch=1000, fanout=(0, 0))
ONE_CLUSTER = NodeClassification(batch=5, sampler="cluster", clusters=5)


def make(name: str, sampler: str) -> Method:
    return methods[name](task=SAMPLERS[sampler], model=GCN(hidden=8))


@cache
def subject(name: str, sampler: str) -> Subject:
    return Subject(make(name, sampler), lambda: make(name, sampler))


@pytest.mark.parametrize(("name", "sampler"), CASES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law(name, sampler, law):
    broken = law.check(subject(name, sampler))
    if broken is None:
        pytest.skip("has no meaning for this method")
    assert broken == ""


@dataclass
class Limit:
    """Options under which mini-batches are full batches, and a model without dropout."""

    task: NodeClassification
    model: object


LIMITS = {
    "gcn": Limit(ALL, GCN(hidden=8, dropout=0.0)),
    "gcn-graph-head": Limit(ALL, GCN(hidden=8, dropout=0.0, head="graph")),
    "gcn-every-hop": Limit(EVERY_HOP, GCN(hidden=8, dropout=0.0)),
    "sage": Limit(ALL, SAGE(hidden=8, dropout=0.0)),
    "sage-every-hop": Limit(EVERY_HOP, SAGE(hidden=8, dropout=0.0)),
    "gat": Limit(EVERY_HOP, GAT(hidden=4, heads=2, dropout=0.0)),
    "gin": Limit(EVERY_HOP, GIN(hidden=8, layers=2, dropout=0.0)),
    "appnp": Limit(EVERY_HOP, APPNP(hidden=8, hops=2, dropout=0.0)),
    "sgc": Limit(NodeClassification(batch=1000), SGC()),
    "gamlp": Limit(NodeClassification(batch=1000), GAMLP(hidden=8, dropout=0.0)),
    "mlp": Limit(NodeClassification(batch=1000), MLP(hidden=8, dropout=0.0)),
    "one-cluster": Limit(ONE_CLUSTER, GCN(hidden=8)),
    "balanced": Limit(replace(ALL, class_weight="balanced"), GCN(hidden=8, dropout=0.0)),
}


def parties(weighted: bool = False) -> list[Graph]:
    made = community_parties(dense=weighted)
    if not weighted:
        return made
    return [replace(g, weights=1.0 + np.arange(g.edges.shape[1]) % 3) for g in made]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_all_neighbours_of_all_training_nodes_are_the_full_batch(limit, weighted):
    full = NodeClassification(class_weight=limit.task.class_weight)
    outcomes = [
        train(methods["fed-avg"](task=task, model=limit.model, epochs=2), parties(weighted))
        for task in (full, limit.task)
    ]
    assert_same(*outcomes, 1e-9)


@pytest.mark.parametrize("name", ["fed-prox", "fed-pub", "local"])
def test_full_batches_are_the_limit_of_other_methods_too(name):
    model = GCN(hidden=8, dropout=0.0)
    full, all_at_once = (
        train(methods[name](task=task, model=model, epochs=2), parties())
        for task in (NodeClassification(), ALL)
    )
    assert_same(full, all_at_once, 1e-9)
