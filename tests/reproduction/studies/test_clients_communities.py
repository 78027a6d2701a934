"""Scores of communities of clients."""

import pytest

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.reproduction.studies.communities import Communities


def settings(**data):
    return resolve(
        {
            "data": {"name": "fed-pub-figure-1", "subgraphs": [2, 1], "size": 20} | data,
            "partition": {"name": "natural"},
            "split": {"train": 0.3, "val": 0.3, "test": 0.4},
            "model": {"name": "gcn", "hidden": 8},
            "method": {"name": "local"},
            "run": {"rounds": 3},
        }
    )


def test_the_mean_of_all_clients_is_that_of_the_communities_by_their_sizes():
    found = Communities().findings(settings(purity=0.5, signal=0.1))
    first, second = (found.figures[f"community_{c}"] for c in (1, 2))
    assert (2 * first + second) / 3 == pytest.approx(found.figures["test_accuracy"])
    assert len(found.arrays["community_1"]) == 3


def test_data_without_communities_is_refused():
    config = {"data": {"name": "patients"}, "method": {"name": "local"}}
    with pytest.raises(AtollError, match="patients"):
        Communities().findings(resolve(config))
