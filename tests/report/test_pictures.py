"""Pictures of a partition: six nodes, two clients, one shared node.

0 - 1 - 2 - 3 - 4 - 5   and the chord 0 - 2
"""

import numpy as np
import pytest

from atoll.errors import AtollError
from atoll.graph import make_graph
from atoll.partition.statistics import PartitionStatistics
from atoll.report.pictures import draw_partition, sample, spring_layout

EDGES = np.array([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 2]])
Y = np.array([0, 0, 0, 1, 1, 1])


@pytest.fixture
def cut():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    parts = [whole.subgraph(np.array([2, 0, 1, 3])), whole.subgraph(np.array([3, 5]))]
    return PartitionStatistics(whole, parts)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures_are_drawn(cut, ending, tmp_path):
    path = tmp_path / "new" / f"picture.{ending}"
    draw_partition(cut, path, "six nodes")
    start = path.read_bytes()[:300]
    assert (
        start.startswith(b"\x89PNG") if ending == "png" else b"<svg" in start or b"<?xml" in start
    )


def test_a_picture_of_an_unknown_kind_is_refused(cut, tmp_path):
    with pytest.raises(AtollError, match=r"\.png"):
        draw_partition(cut, tmp_path / "picture.doc", "")
    assert not list(tmp_path.iterdir())


def test_of_a_large_graph_the_neighbourhood_of_its_hub_is_drawn():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    assert sample(whole, 4).tolist() == [0, 1, 2, 3]
    position = spring_layout(whole)
    assert np.isfinite(position).all()
    near, far = (np.linalg.norm(position[0] - position[v]) for v in (1, 5))
    assert near < far
