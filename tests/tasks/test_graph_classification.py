"""Graph classification: graphs, not nodes, are the examples."""

from dataclasses import replace
from itertools import chain
from math import log

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.methods.base import methods
from atoll.models.gcn import GCN
from atoll.models.gin import GIN
from atoll.models.sage import SAGE
from atoll.rng import CohortRng, stream
from atoll.tasks.graphs import GraphClassification, divided
from atoll.tasks.links import LinkPrediction
from atoll.tasks.mini_batches import one_pass
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_collections import collection, collection_parties
from small_federations import community_parties

TASK = GraphClassification()
# Every graph's class scores are [0, the number of its nodes].
COUNTING = {
    "conv1.weight": torch.ones(1, 1),
    "conv1.bias": torch.zeros(1),
    "conv2.weight": torch.ones(1, 1),
    "conv2.bias": torch.zeros(1),
    "classifier.weight": torch.tensor([[0.0, 1.0]]),
    "classifier.bias": torch.zeros(2),
}


def two_rings(**splits):
    """A ring of 3 and one of 5: a convolution of ones gives ones, of which a sum counts nodes."""
    graph = collection([("ring", 3), ("ring", 5)])
    masks = dict.fromkeys(("train", "val", "test"), np.zeros(8, dtype=bool))
    masks |= {name: np.isin(np.arange(8), rows) for name, rows in splits.items()}
    return replace(graph, **masks)


def test_the_loss_is_a_mean_over_graphs():
    """The sum read-out scores 3 and 5 for the class 1 that both have."""
    cohort = Cohort([two_rings(train=[0, 5 - 2])], dtype=torch.float64)
    params = {name: p[None].double() for name, p in COUNTING.items()}
    model = GCN(hidden=1, dropout=0.0, readout="sum")
    expected = (log(1 + np.exp(-3)) + log(1 + np.exp(-5))) / 2
    assert float(TASK.loss(model, params, cohort)) == pytest.approx(expected, abs=1e-12)
    mean = replace(model, readout="mean")
    assert float(TASK.loss(mean, params, cohort)) == pytest.approx(log(1 + np.exp(-1)), abs=1e-12)


def test_scores_count_graphs():
    cohort = Cohort([two_rings(train=[0], test=[3])], dtype=torch.float64)
    params = {name: p[None].double() for name, p in COUNTING.items()}
    scores = TASK.scores(GCN(hidden=1, dropout=0.0, readout="sum"), params, cohort)
    assert scores["nodes"].tolist() == [[1.0, 0.0, 1.0]]
    assert scores["accuracy"].tolist() == [[1.0, 0.0, 1.0]]
    assert float(scores["loss"][0, 2]) == pytest.approx(log(1 + np.exp(-5)))


def test_every_client_has_graphs_in_every_part_and_classes_are_spread():
    graph = collection([("ring", 3)] * 30 + [("path", 3)] * 10)
    train, val, test = divided(graph, 0.1, 0.2, stream(0, "parts"))
    assert [int(part.sum()) for part in (train, val, test)] == [28, 4, 8]
    assert int((train | val | test).sum()) == 40
    for part, rings in ((val, 3), (test, 6)):
        assert abs(int(graph.y[part].sum()) - rings) <= 1
    few = collection([("ring", 3)] * 3)
    assert [int(part.sum()) for part in divided(few, 0.1, 0.1, stream(0, "parts"))] == [1, 1, 1]


def test_parts_drawn_before_can_be_kept():
    graph = two_rings(train=[0], val=[3])
    kept = GraphClassification(divided="before").prepare(graph, stream(0, "parts"))
    assert kept.train.tolist() == graph.train.tolist()


def test_a_pass_shows_every_training_graph_once():
    parties = [two_rings(train=[0, 3]), collection_parties((11,), seed=1)[0]]
    parties[1] = replace(parties[1], train=parties[1].y >= 0, val=parties[1].y > 9)
    parties[0] = replace(parties[0], x=np.ones((8, 6)))
    cohort = Cohort(parties, dtype=torch.float64)
    steps = list(one_pass(cohort, CohortRng(0, (0, 1), 1, "train"), 4))
    assert [step.active.tolist() for step in steps] == [[True, True], [False, True], [False, True]]
    seen = [step.cohort.graphs[1].ids[step.cohort.graphs[1].train].tolist() for step in steps]
    assert sorted(chain.from_iterable(seen)) == sorted(parties[1].ids[parties[1].train].tolist())
    assert [len(part) for part in seen] == [4, 4, 3]
    # Whoever waits is shown one graph, and fits it with nobody's coins.
    assert len(steps[1].cohort.graphs[0].first_nodes) == 1


def test_mini_batches_of_all_graphs_are_the_full_batch():
    parties = [replace(p, val=p.val & False, test=p.test & False) for p in collection_parties()]
    parties = [replace(p, train=p.y >= 0) for p in parties]
    model, fresh = GIN(hidden=4, dropout=0.5), GraphClassification(batch=99)
    params = replicated(model.init(6, 2, stream(0, "model")), len(parties))
    rng = [CohortRng(0, range(6), 1, "train") for _ in range(2)]
    cohort = Cohort(parties, dtype=torch.float64)
    (step,) = list(fresh.passes(GIN(), cohort, rng[0])())
    one = fresh.loss(model, params, step.cohort, step.rng)
    torch.testing.assert_close(one, fresh.loss(model, params, cohort, rng[1]))


@pytest.mark.parametrize("name", [n for n in methods if "graphs" in methods[n].tasks])
def test_every_method_that_says_so_can_be_named(name):
    """tests/laws/test_laws_on_graphs.py holds it to more."""
    model = "star-gin" if name == "fed-star" else "gin"
    made = resolve({"method": {"name": name}, "task": {"name": "graphs"}, "model": {"name": model}})
    assert made.method.task == TASK


def test_the_usual_model_is_gin_unless_the_method_has_one():
    chosen = [
        resolve({"method": {"name": name}, "task": {"name": "graphs"}}).method.model.registered_name
        for name in ("fed-avg", "fed-star")
    ]
    assert chosen == ["gin", "star-gin"]


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: methods["fed-gnn"](task=TASK, model=GIN()), "can't be trained for the task"),
        (lambda: methods["fed-avg"](task=TASK, model=SAGE()), "has no read-out"),
        (lambda: methods["scaffold"](task=GraphClassification(batch=8), model=GIN()), "batch=0"),
        (lambda: GraphClassification(val=0.5, test=0.5), "leave graphs to train on"),
        (lambda: TASK.prepare(community_parties()[0], stream(0)), "is one graph, not a collection"),
        (lambda: NodeClassification().prepare(two_rings(), stream(0)), "choose the task 'graphs'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(refused, message):
    with pytest.raises(AtollError, match=message):
        refused()


def test_links_of_a_collection_are_those_of_one_graph():
    ready = LinkPrediction().prepare(collection([("ring", 8)] * 4), stream(0))
    assert ready.graph_of is None
