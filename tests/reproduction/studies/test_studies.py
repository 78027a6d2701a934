"""Studies on a graph whose communities are known."""

import numpy as np
import pytest

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, load_whole, parties_of, simulate
from atoll.partition.statistics import PartitionStatistics
from atoll.reproduction.studies.neighbours import Neighbours
from atoll.reproduction.studies.similarity import Similarity
from atoll.tree import under


def experiment(method, **options):
    return resolve(
        {
            "data": {"name": "fed-pub-figure-3"},
            "partition": {"name": "natural"},
            "split": {"train": 0.4, "val": 0.3, "test": 0.3},
            "model": {"hidden": 16},
            "method": {"name": method} | options,
            "run": {"rounds": 4},
        }
    )


def test_similarity_of_models_follows_that_of_labels():
    found = Similarity().findings(experiment("fed-pub", epochs=3))
    assert found.figures["correlation"] == found.figures["correlation@4"]
    assert found.figures["correlation@4"] > 0.8
    # Five clients of one community come first, fifteen of the other after them.
    similarity, labels = found.arrays["similarity@4"], found.arrays["labels"]
    assert similarity.shape == labels.shape == found.arrays["missing"].shape == (20, 20)
    assert similarity[:5, :5].mean() > similarity[:5, 5:].mean()
    assert np.diag(labels) == pytest.approx(np.ones(20))
    others = labels[~np.eye(20, dtype=bool)]
    assert found.figures["labels"] == pytest.approx(others.mean())


def test_a_method_that_compares_nobody_has_no_similarity():
    with pytest.raises(AtollError, match="does not compare clients"):
        Similarity().findings(experiment("fed-avg"))


def test_a_neighbours_model_is_scored_on_the_own_subgraph():
    digits = {"data": {"name": "digits"}, "partition": {"clients": 4}, "model": {"hidden": 16}}
    method = {"method": {"name": "local", "epochs": 20}}
    chosen = resolve(digits | method | {"run": {"rounds": 1}})
    found = Neighbours().findings(chosen).figures
    fed, state = simulate(chosen, load_parties(chosen))
    fed.begin(1)
    chosen.method.round(fed, state, 1)
    whole = load_whole(chosen)
    missing = PartitionStatistics(whole, parties_of(chosen, whole)).missing
    right = []
    for client, graph in enumerate(fed.host.cohort.graphs):
        links = [-1 if k == client else n for k, n in enumerate(missing[client])]
        next_door = int(np.argmax(links))
        model = {n: p[[next_door]] for n, p in under(fed.host.state, "model").items()}
        guess = chosen.method.model.apply(model, Cohort([graph])).argmax(1).numpy()
        right.append(float((guess == graph.y)[graph.test].mean()))
    assert found["neighbour"] == pytest.approx(100 * np.mean(right), abs=1e-4)
    assert found["own"] != found["neighbour"]
