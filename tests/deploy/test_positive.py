"""Sites with a rare class: a deployment is scored by what a simulation is scored by."""

import dataclasses
import logging

import numpy as np
import pytest

from atoll.deploy.journal import Journal
from atoll.deploy.positive import agreed, words_on_classes
from atoll.experiment.config import resolve
from atoll.experiment.runner import run_experiment
from result_comparison import assert_same_result
from small_federations import community_parties
from thread_fleet import deployed, experiment

RARE = {"rarer": 1, "rare": True, "ranks": True, "train": 90}
COMMON = {"rarer": 0, "rare": False, "ranks": True, "train": 60}


def parties():
    """Two classes, of which one node in each split of a party has the second."""
    graphs = []
    for graph in community_parties((60, 70, 64)):
        y = np.zeros_like(graph.y)
        for mask in (graph.train, graph.val, graph.test):
            y[np.flatnonzero(mask)[0]] = 1
        graphs.append(dataclasses.replace(graph, y=y, classes=2, class_names=("no", "yes")))
    return graphs


def test_pr_auc_leads_where_a_class_is_rare_as_in_a_simulation(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "atoll"):
        result = deployed(tmp_path, parties(), "fed-avg", rounds=3).run()
    assert result.metric == "pr_auc"
    assert "a class is rare at sites that hold most training nodes" in caplog.text
    there = experiment(tmp_path / "sites", "fed-avg", rounds=3)
    assert_same_result(run_experiment(there, tmp_path / "simulated"), result)


@pytest.mark.parametrize(
    ("sites", "asked", "metric", "positive"),
    [
        ([RARE, COMMON], "auto", "pr_auc", 1),
        ([RARE, COMMON], "accuracy", "accuracy", 1),
        ([RARE | {"train": 50}, COMMON], "auto", "accuracy", 0),
        ([RARE | {"ranks": False}], "auto", "accuracy", 1),
        ([{"rarer": -1, "train": 9}], "auto", "accuracy", -1),
    ],
)
def test_sites_count_by_their_training_nodes(sites, asked, metric, positive):
    known = {str(i): facts for i, facts in enumerate(sites)}
    found = agreed(known, resolve({"run": {"metric": asked}}))
    assert (found["metric"], found["positive"]) == (metric, positive)
    assert bool(found["said"]) == (sites[0].get("rare", False) and sites[0]["train"] > 60)


def test_a_site_of_many_classes_says_nothing_of_them():
    assert words_on_classes(community_parties((19,))[0])["rarer"] == -1


def test_it_is_settled_once(tmp_path):
    journal = Journal(tmp_path)
    assert journal.agreed(lambda: {"metric": "pr_auc"}) == {"metric": "pr_auc"}
    assert journal.agreed(lambda: {"metric": "accuracy"}) == {"metric": "pr_auc"}
