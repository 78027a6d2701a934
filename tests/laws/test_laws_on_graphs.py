"""The laws where small graphs are the examples, over every method that says it can do that."""

from dataclasses import dataclass, replace
from functools import cache

import pytest

from atoll.graph import Graph
from atoll.laws import LAWS, Subject
from atoll.methods.base import Method, methods
from atoll.models.gin import GIN
from atoll.models.star_gin import StarGIN
from atoll.tasks.graphs import GraphClassification
from small_collections import collection_parties

OWN = ("input", "post", "classifier")
SMALL = GIN(hidden=6, layers=2)
# Methods that have more to keep when options are set.
VARIANTS = {
    "fed-avg-own-layers": ("fed-avg", {"own_layers": OWN, "evaluates": "global"}),
    "fed-prox-own-layers": ("fed-prox", {"own_layers": OWN, "adaptive": True}),
    "gcfl-own-layers": ("gcfl", {"own_layers": OWN, "warmup": 0}),
    "gcfl-plus": ("gcfl", {"own_layers": OWN, "warmup": 0, "sequences": True, "window": 2}),
}
NAMES = sorted(n for n in methods if "graphs" in methods[n].tasks)
CHEAP = {"local", "fed-avg-own-layers", "gcfl-own-layers", "gcfl-plus", "fed-star"}


@dataclass
class OnGraphs(Subject):
    def parties(self, sizes: tuple[int, ...] | None = None, dense: bool = False) -> list[Graph]:
        if sizes is None:
            return collection_parties(dense=dense)
        return collection_parties(tuple(n // 2 for n in sizes), dense=dense)


def make(name: str) -> Method:
    name, options = VARIANTS.get(name, (name, {}))
    cls = methods[name]
    # Less than most clients have, so that they take different numbers of steps.
    task = GraphClassification(batch=2 if cls.takes_batches else 0)
    model = StarGIN(hidden=6, layers=2, walks=4, degrees=3) if name == "fed-star" else SMALL
    extra = {"epochs": 2} if name == "self-training" else {}
    return cls(task=task, model=model, **extra, **options)


@cache
def subject(name: str) -> Subject:
    return OnGraphs(make(name), lambda: make(name))


def usual_laws():
    """Every law for the methods that this task is for; the others on the wire, where each client is
    alone, so that nothing can mix them."""
    for name in (*NAMES, *VARIANTS):
        for law in LAWS:
            if name in CHEAP or law.name in ("wire", "private"):
                yield pytest.param(name, law, id=f"{name}-{law.name}")


@pytest.mark.parametrize(("name", "law"), list(usual_laws()))
def test_law(name, law):
    broken = law.check(subject(name))
    if broken is None:
        pytest.skip("has no meaning for this method")
    assert broken == ""


def test_one_batch_of_all_is_the_full_batch():
    """One client that has no more graphs than a batch takes one step, whichever way."""
    from support import assert_same_model

    from atoll.laws.federation import train

    parties = [replace(p, train=p.y >= 0, val=p.y > 9, test=p.y > 9) for p in collection_parties()]
    full, batched = (
        train(replace(make("fed-avg"), task=GraphClassification(batch=b)), parties) for b in (0, 99)
    )
    assert_same_model(full.clients, batched.clients)
