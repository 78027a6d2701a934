import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from atoll.experiment.config import resolve
from atoll.reproduction.studies.base import studies
from atoll.reproduction.studies.label_shift import jensen_shannon


def test_the_divergence_is_scipys_distance_squared():
    p, q = np.array([0.7, 0.3, 0.0]), np.array([0.1, 0.4, 0.5])
    assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2)
    assert jensen_shannon(p, p) == 0
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(1)


def test_halves_of_one_part_have_similar_labels():
    table = {
        "data": {"name": "communities", "nodes": 200, "communities": 4, "classes": 4},
        "partition": {"name": "metis-overlap", "clients": 10},
    }
    found = studies["label-shift"]().findings(resolve(table)).figures
    assert 0 <= found["within"] < found["between"] <= 1
    assert found["within_root"] < found["between_root"] <= np.sqrt(np.log(2))
