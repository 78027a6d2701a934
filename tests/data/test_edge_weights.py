"""Edge weights as people have them: tables, PyG, NetworkX, arrays, folders, the cache."""

import logging
from types import SimpleNamespace

import networkx
import numpy as np
import polars
import pytest
from complaints import complaint

from atoll.data import Npz, Parties, Tables, from_networkx, from_pyg, write_parties
from atoll.data.cache import cached
from atoll.data.in_memory import digest
from atoll.data.parties import merge

NODES = "id,label,age\na,x,1\nb,y,2\nc,x,3\n"
EDGES = "source,target,amount\na,b,2\na,b,3\nb,a,1\nb,c,7\n"


@pytest.fixture
def bank(tmp_path, monkeypatch):
    """Writes the two tables and reads them."""
    monkeypatch.chdir(tmp_path)

    def read(edges=EDGES, **options):
        (tmp_path / "nodes.csv").write_text(NODES)
        (tmp_path / "edges.csv").write_text(edges)
        return Tables(nodes="nodes.csv", edges="edges.csv", **options).load()

    return read


def test_repeated_transfers_add_up_and_directions_stay(bank):
    graph = bank(weight="amount", directed=True)
    assert graph.edges.tolist() == [[0, 1, 1], [1, 0, 2]]
    assert graph.weights.tolist() == [5, 1, 7]


def test_undirected_edges_have_the_mean_of_both_directions(bank):
    graph = bank(weight="amount")
    assert graph.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.weights.tolist() == [3, 3, 7, 7]


def test_amounts_may_be_taken_as_logarithms(bank):
    graph = bank(weight="amount", weight_scale="log", directed=True)
    np.testing.assert_allclose(graph.weights, np.log([6, 2, 8]))


def test_edges_to_strangers_may_be_left_out_with_their_weights(bank, caplog):
    strangers = "source,target,amount\na,b,2\na,nobody,9\nnobody,c,8\nb,c,7\n"
    assert "'nobody' is no node of" in complaint(bank, strangers, weight="amount")
    with caplog.at_level(logging.WARNING, "atoll"):
        graph = bank(strangers, weight="amount", directed=True, unknown_ends="drop")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.weights.tolist() == [2, 7]
    assert "'edges.csv': 2 of 4 edges are left out" in caplog.text


def test_a_column_that_looks_like_weights_is_mentioned_but_not_used(bank, caplog):
    with caplog.at_level(logging.WARNING, "atoll"):
        assert bank().weights is None
    assert "column 'amount' is not used: every edge weighs 1" in caplog.text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("", "line 3: the weight is missing; give every edge one."),
        ("-3", "line 3: the weight is -3; weights are finite and at least 0"),
        ("inf", "line 3: the weight is inf; weights are finite"),
        ("many", "line 3: 'many' is no number, as 1 of 4 weights are not; correct them."),
    ],
)
def test_a_bad_weight_is_refused_by_its_line(bank, cell, said):
    assert said in complaint(bank, EDGES.replace("a,b,3", f"a,b,{cell}"), weight="amount")


def test_a_weight_that_is_no_column_or_an_end(bank):
    assert "did you mean 'amount'?" in complaint(bank, weight="amout")
    assert "an end of the edges" in complaint(bank, weight="target")


def pyg(**more):
    return SimpleNamespace(
        x=np.eye(3),
        edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
        y=np.array([0, 1, 0]),
        **more,
    )


@pytest.mark.parametrize("key", ["edge_weight", "edge_attr"])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_pyg_weights(key, shape):
    weights = np.array([3.0, 3.0, 1.0, 1.0]).reshape(shape)
    graph = from_pyg(pyg(**{key: weights})).load()
    assert graph.weights.tolist() == [3, 3, 1, 1]
    assert from_pyg(pyg(**{key: weights}), weights=False).load().weights is None


def test_pyg_attributes_that_are_no_weights(caplog):
    assert "edge_attr[1] is -2; weights are finite" in complaint(
        from_pyg, pyg(edge_attr=np.array([1, -2, 1, 1]))
    )
    assert "for 4 edges" in complaint(from_pyg, pyg(edge_weight=np.ones(3)))
    with caplog.at_level(logging.WARNING, "atoll"):
        assert from_pyg(pyg(edge_attr=np.ones((4, 2)))).load().weights is None
    assert "2 numbers per edge, so it is not used" in caplog.text


def test_networkx_weights():
    graph = networkx.Graph()
    graph.add_nodes_from("abc", label="x", age=1)
    graph.add_edge("a", "b", weight=np.float32(2.5))
    graph.add_edge("b", "c")
    assert from_networkx(graph).load().weights.tolist() == [2.5, 2.5, 1, 1]
    assert from_networkx(graph, weight="").load().weights is None
    graph.edges["b", "c"]["weight"] = -1
    said = complaint(from_networkx, graph)
    assert "edge 2, from 'b' to 'c': the weight is -1" in said


def test_npz_weights(tmp_path):
    file = str(tmp_path / "g.npz")
    plain = {"x": np.eye(3), "y": np.array([0, 1, 0])}
    np.savez(file, **plain, edge_index=[[0, 1], [1, 2]], edge_weight=[3.0, 1.0])
    assert Npz(path=file).load().weights.tolist() == [3, 3, 1, 1]
    csr = {"adj_indices": [1, 2], "adj_indptr": [0, 1, 2, 2], "adj_shape": [3, 3]}
    np.savez(file, **plain, **csr, adj_data=[3.0, 1.0])
    assert Npz(path=file).load().weights.tolist() == [3, 3, 1, 1]
    np.savez(file, **plain, **csr, adj_data=[1.0, 1.0])
    assert Npz(path=file).load().weights is None
    np.savez(file, **plain, **csr, edge_weight=[1.0, 1.0])
    assert "put it in adj_data" in complaint(Npz(path=file).load)


def test_weights_are_part_of_a_graphs_digest():
    bare, one, two = (
        from_pyg(pyg(**more)).load()
        for more in ({}, {"edge_weight": np.ones(4)}, {"edge_weight": np.full(4, 2.0)})
    )
    assert len({digest(bare), digest(one), digest(two)}) == 3


def test_party_folders_keep_weights_to_the_bit(bank, tmp_path):
    graph = bank(weight="amount", weight_scale="log")
    write_parties(
        [graph.subgraph(np.array([0, 1]), "p"), graph.subgraph(np.array([1, 2]), "q")], "f"
    )
    assert polars.read_parquet("f/p/edges.parquet").columns == ["source", "target", "weight"]
    merged = Parties(folder="f").load()
    np.testing.assert_array_equal(merged.weights, graph.weights)
    q = merged.held(merged.holdings[1])
    assert q.weights.tolist() == graph.weights[2:].tolist()


def test_parties_may_weigh_a_common_edge_differently():
    one, two = (
        from_pyg(pyg(edge_weight=np.array(weights)), name=name).load()
        for name, weights in (("p", [3.0, 3.0, 1.0, 1.0]), ("q", [5.0, 5.0, 1.0, 1.0]))
    )
    merged = merge([one, two], "both")
    assert merged.weights.tolist() == [3, 3, 1, 1]
    assert merged.held(merged.holdings[1]).weights.tolist() == [5, 5, 1, 1]
    bare = from_pyg(pyg(), name="r").load()
    assert "the party 'p' has edge weights, the party 'r' has none" in complaint(
        merge, [one, bare], "both"
    )


def test_hand_made_folders_take_the_weight_column(tmp_path):
    for party in ("north", "south"):
        (tmp_path / party).mkdir()
        (tmp_path / party / "nodes.csv").write_text(NODES.replace("\na,", f"\n{party},"))
        (tmp_path / party / "edges.csv").write_text("source,target,amount\nb,c,7\n")
    merged = Parties(folder=str(tmp_path), weight="amount").load()
    assert merged.weights.tolist() == [7, 7]
    with (tmp_path / "north" / "edges.csv").open("a") as edges:
        edges.write("b,nobody,5\n")
    merged = Parties(folder=str(tmp_path), weight="amount", unknown_ends="drop").load()
    assert merged.weights.tolist() == [7, 7]


def test_the_cache_keeps_weights(bank):
    graph = bank(weight="amount")
    for read in (lambda: graph, None):
        again = cached("bank", {}, [], read)
        assert again.weights.tolist() == [3, 3, 7, 7]
