from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.data.musae import COUNTRIES, Facebook, Twitch, union
from atoll.errors import AtollError
from atoll.graph import dense, make_graph
from atoll.partition.natural import Natural

ROWS = {"DE": 4, "EN": 3, "ES": 3, "FR": 3, "PT": 2, "RU": 3}


def write_twitch(folder: Path, **changed: np.ndarray) -> None:
    """A path in each country, but in Germany the last streamer has no friends."""
    for country, rows in ROWS.items():
        joined = rows - 1 if country == "DE" else rows
        path = folder / f"Twitch/{country}/raw/{country}.npz"
        path.parent.mkdir(parents=True)
        np.savez(
            path,
            features=changed.get(country, 2 * np.eye(rows, 5, dtype=np.uint8)),
            edges=np.array([[node, node + 1] for node in range(joined - 1)]),
            target=np.arange(rows) % 2,
        )


def test_six_countries_side_by_side(data_folder: Path) -> None:
    write_twitch(data_folder)
    graph = Twitch().load()
    assert graph.nodes == sum(ROWS.values())
    assert [holding.name for holding in graph.holdings] == list(COUNTRIES)
    assert [len(holding.nodes) for holding in graph.holdings] == list(ROWS.values())
    assert graph.ids[:5].tolist() == ["DE-0", "DE-1", "DE-2", "DE-3", "EN-0"]
    assert sparse.issparse(graph.x)
    owner = np.concatenate([[country] * rows for country, rows in ROWS.items()])
    assert (owner[graph.edges[0]] == owner[graph.edges[1]]).all()


def test_natural_clients_are_the_countries(data_folder: Path) -> None:
    write_twitch(data_folder)
    clients = Natural().cut(Twitch().load(), np.random.default_rng(0))
    assert [client.name for client in clients] == [f"twitch {country}" for country in COUNTRIES]
    alone = Twitch(country="ES").load()
    spain = clients[2]
    np.testing.assert_array_equal(spain.edges, alone.edges)
    np.testing.assert_array_equal(spain.ids, alone.ids)
    np.testing.assert_array_equal(dense(spain.x), dense(alone.x))


def test_one_country(data_folder: Path) -> None:
    write_twitch(data_folder)
    graph = Twitch(country="PT").load()
    assert graph.ids.tolist() == ["PT-0", "PT-1"]
    assert [holding.name for holding in graph.holdings] == ["PT"]
    with pytest.raises(AtollError, match=r"unknown value of data.country: 'XX'"):
        Twitch(country="XX")  # type: ignore[arg-type]


def test_the_largest_component_is_each_countrys_own(data_folder: Path) -> None:
    write_twitch(data_folder)
    graph = Twitch(largest_component=True, normalise=True).load()
    assert graph.nodes == sum(ROWS.values()) - 1
    assert len(graph.holdings) == 6
    np.testing.assert_allclose(dense(graph.x).sum(axis=1), 1)


def test_countries_from_two_sources_do_not_fit(data_folder: Path) -> None:
    write_twitch(data_folder, FR=np.eye(3, 4))
    with pytest.raises(AtollError, match=r"FR.npz' has 4 features and '.*DE.npz' has 5; take all"):
        Twitch().load()


def test_union_of_dense_and_sparse_graphs() -> None:
    edge, y = np.array([[0], [1]]), np.array([0, 1])
    both = union(
        [
            make_graph(sparse.csr_array(np.eye(2, dtype=np.float32)), edge, y, name="a"),
            make_graph(np.ones((2, 2), dtype=np.float32), edge, y, name="b"),
        ],
        "both",
    )
    assert both.edges.T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert sparse.issparse(both.x)
    np.testing.assert_array_equal(dense(both.x), [[1, 0], [0, 1], [1, 1], [1, 1]])


def test_facebook(data_folder: Path) -> None:
    path = data_folder / "FacebookPagePage/raw/facebook.npz"
    path.parent.mkdir(parents=True)
    pages, likes = np.array([[1, 0, 1, 0], [0, 0, 0, 1]]), np.array([[0, 1]])
    np.savez(path, features=pages, edges=likes, target=np.array([1, 0]))
    graph = Facebook(normalise=True).load()
    np.testing.assert_allclose(dense(graph.x), [[0.5, 0, 0.5, 0], [0, 0, 0, 1]])


@pytest.mark.usefixtures("torch_geometric")
def test_addresses() -> None:
    assert Facebook().address("raw/facebook.npz").endswith("/facebook.npz")
    assert Twitch().address("PT/raw/PT.npz").endswith("/PT.npz")
