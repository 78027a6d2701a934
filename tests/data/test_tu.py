"""TUDataset, on small files of its layout."""

from pathlib import Path

import numpy as np
import pytest

from atoll.data import datasets
from atoll.errors import AtollError
from atoll.graph import dense
from small_federations import needs_data

# A triangle, and two joined nodes with a third apart. Classes -1 and 1, node labels from 2.
FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "2\n4\n2\n3\n3\n2\n",
    "node_attributes": "0.5, 1\n1.5, 2\n0, 3\n0, 4\n0, 5\n0, 6\n",
}


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder of datasets, into which collections are put."""
    monkeypatch.setenv("ATOLL_DATA", str(tmp_path))
    monkeypatch.setenv("ATOLL_CACHE", str(tmp_path / "cache"))

    def put(name, **changed):
        folder = tmp_path / "TUDataset" / name / "raw"
        folder.mkdir(parents=True)
        for part, text in (FILES | changed).items():
            if text:
                (folder / f"{name}_{part}.txt").write_text(text)
        return folder

    return put


def test_a_collection_is_one_graph_with_labels_at_first_nodes(shelf):
    shelf("MUTAG")
    for _ in range(2):  # read, and from the cache
        graph = datasets["tu-mutag"]().load()
        assert graph.graph_of.tolist() == [0, 0, 0, 1, 1, 1]
        assert graph.y.tolist() == [1, -1, -1, 0, -1, -1]
        assert dense(graph.x).tolist() == [
            [1, 0, 0],
            [0, 0, 1],
            [1, 0, 0],
            [0, 1, 0],
            [0, 1, 0],
            [1, 0, 0],
        ]
        assert graph.edge_count == 4
        assert graph.classes == 2


@pytest.mark.parametrize(
    ("features", "first"),
    [("labels-and-attributes", [0.5, 1, 1, 0, 0]), ("degree", [0, 0, 1])],
)
def test_other_features(shelf, features, first):
    shelf("TINY")
    graph = datasets["tu"](collection="TINY", features=features).load()
    assert dense(graph.x)[0].tolist() == first


def test_nodes_without_labels_have_their_degrees(shelf):
    shelf("TINY", node_labels="", node_attributes="")
    graph = datasets["tu"](collection="TINY").load()
    assert dense(graph.x).argmax(1).tolist() == [2, 2, 2, 1, 1, 0]


def test_several_collections_are_clients_in_spaces_of_their_own(shelf):
    shelf("ONE")
    shelf("TWO", node_labels="1\n1\n1\n1\n1\n1\n", graph_labels="5\n5\n")
    for _ in range(2):
        whole = datasets["tu-mix"](names=("ONE", "TWO")).load()
        one, two = (whole.held(holding) for holding in whole.holdings)
        assert (one.space, two.space) == ("ONE", "TWO")
        assert one.features == two.features == 3
        assert two.y.tolist() == [0, -1, -1, 0, -1, -1]
        assert two.graph_of.tolist() == [0, 0, 0, 1, 1, 1]
        assert dense(two.x)[0].tolist() == [1, 0, 0]
        assert len(set(whole.ids.tolist())) == 12


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"A": "1, 2\n2, 7\n"}, "TINY_A.txt' can't be read as edges .*outside 0 to 5"),
        ({"A": "1, 2\n3, 4\n"}, "an edge joins nodes of two graphs"),
        ({"A": "1, x\n"}, "TINY_A.txt' can't be read"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n2\n"}, "do not follow each other"),
        ({"graph_labels": "1\n"}, "it has 1 lines for 2 graphs"),
        ({"node_labels": "1\n"}, "it has 1 lines for 6 nodes"),
        ({"graph_labels": ""}, "TINY_graph_labels.txt' is missing"),
    ],
)
def test_damage_is_named(shelf, changed, message):
    shelf("TINY", **changed)
    with pytest.raises(AtollError, match=message):
        datasets["tu"](collection="TINY").load()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tu", {"collection": "../x"}),
        ("tu-mix", {"names": ("ONE",)}),
        ("tu-mix", {"names": ("/",)}),
    ],
)
def test_names_that_are_none(name, options):
    with pytest.raises(AtollError):
        datasets[name](**options)


@needs_data
@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "features"),
    [("tu-mutag", 188, 3371, 7), ("tu-bzr", 405, 14479, 53), ("tu-proteins", 1113, 43471, 3)],
)
def test_the_real_ones(name, graphs, nodes, features):
    if not (Path(__import__("os").environ["ATOLL_DATA"]) / "TUDataset").is_dir():
        pytest.skip("no TUDataset there")
    graph = datasets[name]().load()
    assert (len(graph.first_nodes), graph.nodes, graph.features) == (graphs, nodes, features)
    assert np.bincount(graph.y[graph.first_nodes]).min() > 0
