"""k-means on embeddings against classes: numbers worked out by hand."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from atoll.data.in_memory import from_graph
from atoll.data.split import Split
from atoll.deploy.plan import Terms, new_plan
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.result import load_result
from atoll.experiment.runner import run_experiment
from atoll.graph import Holding, make_graph
from atoll.inference.embed import embed, embedded
from atoll.partition.natural import Natural
from atoll.tasks.clustering import agreement, clustered


def test_agreement_by_hand():
    """Classes 0 0 0 1 1 1, clusters a a b b b b.

    Pairs together in both: aa, and three of the bbb of class 1, so 1 + 3 = 4; of the classes 6, of
    the clusters 1 + 6 = 7, of 15 in all. Chance gives 6 * 7 / 15 = 2.8, at most (6 + 7) / 2 = 6.5.
    """
    nmi, ari = agreement(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1]))
    assert ari == pytest.approx((4 - 2.8) / (6.5 - 2.8))
    h_y = log(2)
    h_c = -(1 / 3) * log(1 / 3) - (2 / 3) * log(2 / 3)
    # Cells: (0, a) 2/6, (0, b) 1/6, (1, b) 3/6.
    mutual = (
        2 / 6 * log((2 / 6) / (1 / 2 * 1 / 3))
        + 1 / 6 * log((1 / 6) / (1 / 2 * 2 / 3))
        + 3 / 6 * log((3 / 6) / (1 / 2 * 2 / 3))
    )
    assert nmi == pytest.approx(2 * mutual / (h_y + h_c))


def test_names_of_clusters_do_not_matter():
    assert agreement(np.array([0, 0, 1, 1]), np.array([7, 7, 3, 3])) == (1.0, 1.0)


def test_training_nodes_and_unknown_ones_are_clustered_but_not_scored():
    x = np.array([[0.0], [0.1], [9.0], [9.1], [0.05], [9.05]])
    y = np.array([0, 0, 1, 1, -1, 0])
    scored = np.array([True, True, True, True, True, False])
    found, score = clustered(x, y, scored, seed=0)
    assert len(set(found[[0, 1, 4]])) == len(set(found[[2, 3, 5]])) == 1
    assert (score.clusters, score.scored, score.nmi, score.ari) == (2, 4, 1.0, 1.0)


def test_too_few_nodes_have_no_score():
    found, score = clustered(np.zeros((3, 2)), np.array([0, 1, -1]), np.zeros(3, dtype=bool), 0)
    assert score.clusters == 1  # nodes that look alike are one cluster
    assert score.scored == 0
    assert np.isnan(score.nmi)
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_any_run_with_embeddings_is_scored(task, tmp_path, here):
    """Also where labels were of no use to the task."""
    table = {
        "data": {"name": "digits"},
        "partition": {"name": "metis", "clients": 3},
        "model": {"hidden": 16},
        "task": {"name": task},
        "method": {"name": "fed-avg"},
        "run": {"rounds": 15, "cluster_scores": True},
    }
    result = run_experiment(resolve(table), tmp_path / "run")
    nodes, scores = embedded(tmp_path / "run", cluster=True)
    assert scores.columns == ["client", "clusters", "scored", "nmi", "ari"]
    assert scores["nmi"].min() > 0.2
    assert nodes.columns[:4] == ["id", "client", "cluster", "e0"]
    assert embedded(tmp_path / "run", cluster=True)[1].equals(scores)
    assert "cluster" not in embed(tmp_path / "run").columns
    for name in ("nmi", "ari"):  # those that the run itself reports
        assert [client[name] for client in result.per_client] == scores[name].to_list()
        assert result.figures[name] == pytest.approx(scores[name].mean())
    said = here("embed", "run", "--out", "embeddings.csv", "--cluster").stdout
    assert f"mean over clients: NMI {scores['nmi'].mean():.3f}" in said
    read_back = load_result(tmp_path / "run", result.experiment)
    assert (read_back.figures["nmi"], read_back.per_client) == (
        result.figures["nmi"],
        result.per_client,
    )


def test_a_client_with_too_few_nodes_has_no_score_and_does_not_count(tmp_path):
    """The second client's nodes all train, so that none is left to score its clusters by."""
    clients = [f"{'ab'[i >= 12]}" for i in range(16)]
    y = np.arange(16) % 2
    split = np.where(np.arange(16) < 12, np.arange(16) // 2 % 3, 0)
    graph = replace(
        make_graph(np.eye(16, dtype=np.float32)[:, :8] + y[:, None], np.zeros((2, 0), int), y),
        train=split == 0,
        val=split == 1,
        test=split == 2,
        holdings=tuple(
            Holding(name, np.flatnonzero(np.array(clients) == name)) for name in ("a", "b")
        ),
    )
    table = {"method": {"name": "local"}, "run": {"rounds": 3, "cluster_scores": True}}
    experiment = replace(
        resolve(table),
        data=from_graph(graph),
        partition=Natural(),
        split=Split(kind="public"),
    )
    result = run_experiment(experiment, tmp_path / "run")
    first, second = result.per_client
    assert 0 <= first["nmi"] <= 1
    assert (second["nmi"], second["ari"]) == (None, None)
    assert result.figures["nmi"] == first["nmi"]


def test_a_method_without_a_model_for_nodes_and_a_deployment_are_refused():
    table = {"method": {"name": "local"}, "run": {"cluster_scores": True}}
    with pytest.raises(AtollError, match="ada-fgl leaves no model that"):
        resolve(table | {"method": {"name": "ada-fgl"}})
    deployed = resolve(table | {"method": {"name": "fed-avg"}, "split": {"kind": "public"}})
    with pytest.raises(AtollError, match=r"atoll embed --state FOLDER --cluster"):
        new_plan("flare", ("a", "b"), deployed, Terms())
