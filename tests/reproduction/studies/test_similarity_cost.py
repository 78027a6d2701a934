"""What comparisons of clients cost."""

import pytest

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.reproduction.studies.similarity_cost import SimilarityCost


def settings(method):
    return resolve(
        {
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 3},
            "model": {"name": "gcn", "hidden": 4},
            "method": {"name": method},
            "run": {"rounds": 1},
        }
    )


def test_every_measure_is_timed():
    found = SimilarityCost().findings(settings("fed-pub")).figures
    assert set(found) == {"parameters", "gradients", "function", "embeddings"}
    assert all(milliseconds >= 0 for milliseconds in found.values())


def test_a_method_that_compares_nobody_is_refused():
    with pytest.raises(AtollError, match="fed-avg does not compare"):
        SimilarityCost().findings(settings("fed-avg"))
