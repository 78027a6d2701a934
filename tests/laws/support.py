"""A federation of any registered method on small parties, run by any engine."""

from functools import cache

import torch

from atoll.graph import Graph
from atoll.laws import Subject
from atoll.laws.differences import sizes, values
from atoll.laws.federation import Outcome, engine, network, train
from atoll.methods.base import Method, methods
from atoll.models.aux_gcn import AuxGCN
from atoll.models.disen import Disen
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.models.star_gin import StarGIN
from atoll.tree import Tree, under
from small_federations import community_parties

__all__ = ["Outcome", "engine", "network", "train", "values"]

NAMES = sorted(methods)
SMALL = GCN(hidden=8)
SMALL_MLP = MLP(hidden=8, dropout=0.0, bias=False)
# Methods that are made for one kind of model, and with an optimizer of their own.
OTHER_MODELS = {
    "fed-aux": AuxGCN(hidden=8),
    "fed-iih": Disen(hidden=8),
    "fed-mlp": SMALL_MLP,
    "fed-star": StarGIN(hidden=8, layers=2, walks=4, degrees=4),
    "gfl-appnp": SMALL_MLP,
    "mlp": SMALL_MLP,
}
# Parties that share nodes for methods that need it with other options only, so that numbers kept
# of them stay comparable.
ANCHORS = {"fed-gnn": True}
GALA = {"epochs": 1, "combined_rounds": 0}
# What keeps a method fast on small parties, besides a small model; and options whose defaults have
# changed since the golden losses were recorded.
BRIEF: dict[str, dict[str, float]] = {
    "ada-fgl": {"federated_rounds": 2, "hidden": 8},
    "ppfl-deepwalk": {"walks": 3, "length": 10},
    "o-pfgl": {
        "fit_steps": 100,
        "feature_lr": 0.05,
        "steps": 30,
        "every": 10,
        "learn_lr": 0.01,
        "tune_lr": 0.01,
    },
    "fed-prox": {"epochs": 1, "mu": 1.0},
    **dict.fromkeys(("fed-gala", "fed-gala-p", "max-augment", "no-augment"), GALA),
}


def make(name: str, **options) -> Method:
    usual = {"model": OTHER_MODELS.get(name, SMALL)} | BRIEF.get(name, {})
    return methods[name](**(usual | options))


def small_parties(name: str, *args, **options) -> list[Graph]:
    """Parties a method can be tried on; some nodes are held in common where it builds on them."""
    shared = ANCHORS.get(name, make(name).needs_anchors)
    return community_parties(*args, shared=8 if shared else 0, **options)


@cache
def subject(name: str) -> Subject:
    """A registered method on trial."""
    return Subject(make(name), lambda: make(name), ANCHORS.get(name))


@cache
def usual(name: str) -> Outcome:
    """Three rounds of a method on its usual parties, trained once for all laws."""
    return train(make(name), small_parties(name))


def assert_same(a: Outcome, b: Outcome, tolerance: float) -> None:
    for one, other in (
        (a.server, b.server),
        (a.clients, b.clients),
        (a.replies.body, b.replies.body),
    ):
        assert set(one) == set(other)
        for name in one:
            assert sizes(one[name]) == sizes(other[name]), name
            torch.testing.assert_close(
                values(one[name]), values(other[name]), rtol=tolerance, atol=tolerance, msg=name
            )


def assert_same_model(a: Tree, b: Tree) -> None:
    """Two states hold the same model."""
    assert set(under(a, "model")) == set(under(b, "model"))
    for name, leaf in under(a, "model").items():
        torch.testing.assert_close(under(b, "model")[name], leaf, rtol=0, atol=1e-12, msg=name)
