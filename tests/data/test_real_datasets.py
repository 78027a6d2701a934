"""Every dataset at hand: its size as published, and the same from the cache."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy import sparse

from atoll.data.base import datasets
from atoll.data.fetch import fetchable
from atoll.graph import Graph

# Nodes, undirected edges; the same of the largest component; features, classes, holdings.
SIZES = {
    "cora": ((2708, 5278), (2485, 5069), 1433, 7, 0),
    "citeseer": ((3327, 4552), (2120, 3679), 3703, 6, 0),
    "pubmed": ((19717, 44324), (19717, 44324), 500, 3, 0),
    "amazon-computers": ((13752, 245861), (13381, 245778), 767, 10, 0),
    "amazon-photo": ((7650, 119081), (7487, 119043), 745, 8, 0),
    "coauthor-cs": ((18333, 81894), (18333, 81894), 6805, 15, 0),
    "coauthor-physics": ((34493, 247962), (34493, 247962), 8415, 5, 0),
    "dblp": ((17716, 52867), (16191, 51913), 1639, 4, 0),
    "cora-ml": ((2995, 8158), (2810, 7981), 2879, 7, 0),
    "tolokers": ((11758, 519000), (11758, 519000), 10, 2, 0),
    "facebook": ((22470, 170823), (22470, 170823), 4714, 4, 0),
    "twitch": ((34118, 429113), (34118, 429113), 3170, 2, 6),
    "debian-deps": ((63081, 292223), (59659, 291956), 2000, 50, 2084),
    "credit-default": ((30000, 137377), (29460, 136196), 13, 2, 0),
    "bail": ((18876, 311870), (18876, 311870), 18, 2, 0),
    "german-credit": ((1000, 21742), (1000, 21742), 27, 2, 0),
}
DENSE = {"tolokers", "credit-default", "bail", "german-credit"}
ABSENT = {"wiki-cs", "ogbn-arxiv", "ogbn-products"}


def test_no_dataset_is_forgotten(data_folder: Path) -> None:
    assert data_folder.is_dir()
    collections = {entry.name for entry in fetchable() if entry.name.split("-")[0] == "tu"}
    assert len(collections) >= 6  # of small graphs, with tests of their own
    assert {entry.name for entry in fetchable()} == SIZES.keys() | ABSENT | collections


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_a_second_load(
    name: str,
    real_data: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_graph: Callable[[Graph, Graph], None],
) -> None:
    assert real_data.is_dir()
    whole, largest, features, classes, holdings = SIZES[name]
    dataset: Any = datasets[name]
    for component, expected in ((False, whole), (True, largest)):
        graph = dataset(largest_component=component).load()
        if not component:
            assert len(graph.holdings) == holdings
        assert (graph.nodes, graph.edges.shape[1] // 2) == expected
        assert (graph.features, graph.classes) == (features, classes)
        assert graph.undirected
        assert sparse.issparse(graph.x) == (name not in DENSE)
    assert len(list(own_cache.iterdir())) == 2
    monkeypatch.setattr(dataset, "read", lambda *_: pytest.fail("the raw files were read again"))
    same_graph(dataset(largest_component=True).load(), graph)
