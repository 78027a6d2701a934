"""Six nodes, two clients, one shared node: small enough to count by hand.

0 - 1 - 2 - 3 - 4 - 5   and the chord 0 - 2
"""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from atoll.errors import AtollError
from atoll.graph import make_graph
from atoll.report.description import Description, clustering_coefficient, jensen_shannon
from atoll.report.pictures import draw, sample, spring_layout

EDGES = np.array([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 2]])
Y = np.array([0, 0, 0, 1, 1, 1])


@pytest.fixture
def description():
    whole = make_graph(
        np.eye(6, dtype=np.float32), EDGES, Y, ids=np.array([f"n{i}" for i in (3, 1, 4, 0, 5, 2)])
    )
    left, right = whole.subgraph(np.array([2, 0, 1, 3])), whole.subgraph(np.array([3, 5]))
    return Description(whole, [left, right])


def test_shared_nodes_and_missing_edges(description):
    # Node 3 is held by both, node 4 by none; 3 - 4 and 4 - 5 are held by nobody.
    assert description.anchors.tolist() == [False, False, False, True, False, False]
    assert description.missing_edges == 2
    assert description.missing.tolist() == [[0, 0], [0, 0]]
    table = description.table()
    assert table["nodes"].to_list() == [4, 2]
    assert table["edges"].to_list() == [4, 0]
    assert table["anchors"].to_list() == [1, 1]
    # Left misses 3 - 4; right misses 2 - 3, 3 - 4 and 4 - 5.
    assert table["missing_edges"].to_list() == [1, 3]


def test_edges_lost_between_two_clients_are_counted_at_their_pair():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    parts = [whole.subgraph(np.arange(2)), whole.subgraph(np.arange(2, 6))]
    description = Description(whole, parts)
    # 1 - 2 and 0 - 2
    assert description.missing.tolist() == [[0, 2], [2, 0]]
    assert description.missing_edges == 2


def test_clustering_coefficient():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    # Nodes 0 and 1: one pair, joined. Node 2: 1 of 3 pairs. The others: none.
    assert clustering_coefficient(whole) == pytest.approx((1 + 1 + 1 / 3) / 6)


def test_heterogeneity_is_the_median_jensen_shannon_distance(description):
    left, right = np.array([3 / 4, 1 / 4]), np.array([0.0, 1.0])
    assert description.heterogeneity == pytest.approx(jensenshannon(left, right))
    assert jensen_shannon(left, left) == 0


def test_connectivity_is_that_of_the_network_of_clients():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    two = Description(whole, [whole.subgraph(np.arange(2)), whole.subgraph(np.arange(2, 6))])
    # Two linked clients: L = [[1, -1], [-1, 1]], lambda_2 = 2, and 1 / (2 * 2).
    assert two.connectivity == pytest.approx(0.25)
    apart = Description(whole, [whole.subgraph(np.arange(1)), whole.subgraph(np.arange(4, 6))])
    assert apart.connectivity is None


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures_are_drawn(description, ending, tmp_path):
    path = tmp_path / "new" / f"picture.{ending}"
    draw(description, path, "six nodes")
    start = path.read_bytes()[:300]
    assert (
        start.startswith(b"\x89PNG") if ending == "png" else b"<svg" in start or b"<?xml" in start
    )


def test_a_picture_of_an_unknown_kind_is_refused(description, tmp_path):
    with pytest.raises(AtollError, match=r"\.png"):
        draw(description, tmp_path / "picture.doc", "")
    assert not list(tmp_path.iterdir())


def test_of_a_large_graph_the_neighbourhood_of_its_hub_is_drawn():
    whole = make_graph(np.eye(6, dtype=np.float32), EDGES, Y)
    assert sample(whole, 4).tolist() == [0, 1, 2, 3]
    position = spring_layout(whole)
    assert np.isfinite(position).all()
    near, far = (np.linalg.norm(position[0] - position[v]) for v in (1, 5))
    assert near < far
