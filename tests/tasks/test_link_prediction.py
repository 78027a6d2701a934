"""Link prediction: what is hidden stays hidden, and every method can be trained for it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, run_experiment
from atoll.methods.base import methods
from atoll.methods.fed_avg import FedAvg
from atoll.models.gcn import GCN
from atoll.rng import CohortRng, stream
from atoll.tasks.links import LinkPrediction, roc_auc
from small_federations import community_parties

TASK = LinkPrediction(val=0.2, test=0.2, dimensions=4)


def prepared(party=0):
    graph = community_parties()[party]
    return graph, TASK.prepare(graph, stream(0, party, 0, "task"))


def pairs(edges):
    return {(min(a, b), max(a, b)) for a, b in edges.T.tolist()}


def test_every_link_is_in_one_split_and_only_training_links_are_visible():
    graph, ready = prepared()
    train, val, test = (pairs(linked) for linked, _ in ready.probes)
    assert train | val | test == pairs(graph.edges)
    assert len(train) + len(val) + len(test) == graph.edges.shape[1] // 2
    assert len(val) == len(test) == round(0.2 * graph.edges.shape[1] / 2)
    assert pairs(ready.edges) == train
    assert ready.undirected


def test_unlinked_pairs_are_as_many_and_none_is_a_hidden_link():
    graph, ready = prepared()
    for linked, others in ready.probes:
        assert linked.shape == others.shape
        assert not pairs(others) & pairs(graph.edges)


def test_labels_are_dropped():
    _, ready = prepared()
    assert set(ready.y) == {-1}
    assert ready.classes == 4
    assert not (ready.train | ready.val | ready.test).any()


def test_the_area_under_the_curve_by_hand():
    scores, is_link = np.array([3.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False])
    # Of the four pairs of a link and another, only (1, 2) is in the wrong order.
    assert roc_auc(scores, is_link) == 0.75
    assert roc_auc(np.zeros(4), is_link) == 0.5
    assert roc_auc(scores, np.ones(4, dtype=bool)) == 0.0


def test_the_area_under_the_curve_against_scikit_learn():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    scores, is_link = rng.integers(0, 9, 200).astype(float), rng.random(200) < 0.3
    assert roc_auc(scores, is_link) == pytest.approx(roc_auc_score(is_link, scores), abs=1e-12)


def test_scores_of_a_cohort_are_those_of_its_clients():
    graphs = [TASK.prepare(g, stream(0, k, 0, "task")) for k, g in enumerate(community_parties())]
    model = GCN(hidden=8)
    one = model.init(24, 4, np.random.default_rng(0))
    together = Cohort(graphs, dtype=torch.float64)
    spread = {name: p.expand(together.k, *p.shape) for name, p in one.items()}
    scores = TASK.scores(model, spread, together)
    alone = TASK.scores(
        model, {n: p[None] for n, p in one.items()}, Cohort(graphs[2:3], dtype=torch.float64)
    )
    for name, leaf in scores.items():
        assert leaf.shape == (6, 3)
        torch.testing.assert_close(leaf[2:3], alone[name], rtol=0, atol=1e-12)


def test_training_pairs_are_drawn_anew_at_each_step():
    _, ready = prepared()
    cohort = Cohort([ready], dtype=torch.float64)
    model = GCN(hidden=8, dropout=0.0)
    params = {n: p[None] for n, p in model.init(24, 4, np.random.default_rng(0)).items()}
    first, second = (
        float(TASK.loss(model, params, cohort, CohortRng(0, [0], r, "train"))) for r in (1, 2)
    )
    assert first != second


def links_on_digits(method, **run):
    return resolve(
        {
            "method": {"name": method},
            "task": {"name": "links"},
            "data": {"name": "digits"},
            "partition": {"clients": 3},
            "model": {"hidden": 16},
            "run": {"rounds": 8} | run,
        }
    )


@pytest.mark.parametrize("name", [n for n in methods if "links" in methods[n].tasks])
def test_every_method_that_says_so_learns_to_predict_links(name, tmp_path):
    result = run_experiment(links_on_digits(name), tmp_path / "run")
    assert result.metric == "auc"
    assert 0.6 < result.test_score <= 1.0
    assert result.summary()["test_auc"] == result.test_score


def test_weights_count_links_not_nodes():
    cohort = Cohort(load_parties(links_on_digits("fed-avg")).graphs)
    assert cohort.labelled.tolist() == [g.probes[0][0].shape[1] for g in cohort.graphs]


def test_a_party_without_links_is_named():
    graph = replace(community_parties()[0], edges=np.zeros((2, 0), dtype=np.int64))
    ready = TASK.prepare(graph, stream(0, 0, 0, "task"))
    assert TASK.missing(ready) == "training link"


def test_a_method_that_cannot_is_refused():
    class Nodes(FedAvg):
        tasks = ("nodes",)

    with pytest.raises(AtollError, match="can't be trained for the task 'links'"):
        Nodes(task=LinkPrediction())


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"val": 0.0}, r"task\.val is 0\.0; it must be above 0"),
        ({"val": 0.5, "test": 0.5}, "leave links"),
    ],
)
def test_shares_leave_links_to_train_on(shares, message):
    with pytest.raises(AtollError, match=message):
        LinkPrediction(**shares)
