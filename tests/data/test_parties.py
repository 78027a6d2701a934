"""Parties written into folders come back as they were, alone and together."""

import tracemalloc
from dataclasses import replace

import numpy as np
import polars
from hypothesis import given, settings
from hypothesis import strategies as st
from party_examples import halves, same, wheel
from scipy import sparse

import atoll
from atoll.data import Parties, Tables, load_party, write_parties
from atoll.data.split import Split
from atoll.graph import Graph, Holding, dense, make_graph
from atoll.partition.natural import Natural


def round_trip(parties, folder) -> list[Graph]:
    write_parties(parties, folder)
    whole = Parties(folder=str(folder)).load()
    return [whole.held(holding) for holding in whole.holdings]


def test_overlapping_parties_come_back_as_they_were(tmp_path):
    parties = halves(wheel())
    for before, after in zip(parties, round_trip(parties, tmp_path / "p"), strict=True):
        same(before, after)


def test_the_natural_partition_gives_the_parties(tmp_path):
    graph = wheel()
    parties = [*halves(graph), graph]
    write_parties(parties, tmp_path / "p")
    whole = Parties(folder=str(tmp_path / "p")).load()
    cut = Natural().cut(whole, np.random.default_rng(0))
    # The largest first.
    for before, after in zip([parties[2], *parties[:2]], cut, strict=True):
        same(before, after)


def test_the_whole_is_the_union(tmp_path):
    write_parties(halves(wheel()), tmp_path / "p")
    whole = Parties(folder=str(tmp_path / "p")).load()
    assert whole.ids.tolist() == ["n0", "n1", "n2", "n3", "n5", "n4"]
    assert whole.x[:, 0].tolist() == [0, 2, 4, 6, 10, 8]
    assert whole.y.tolist() == [0, 1, 0, 1, 1, 0]
    assert whole.train.tolist() == [True, True, False, False, False, False]
    assert whole.val.tolist() == [False, False, True, True, False, False]
    assert whole.test.tolist() == [False, False, False, False, True, True]
    pairs = {frozenset(whole.ids[list(pair)].tolist()) for pair in whole.edges.T.tolist()}
    assert pairs == {
        frozenset(pair) for pair in (("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n4", "n5"))
    }
    assert whole.edges.shape == (2, 8)


def test_a_party_alone_numbers_classes_as_all_do(tmp_path):
    """The right party never has class 1, yet 2 stays 2."""
    graph = wheel(y=np.array([0, 1, 2, 0, 2, 0]), classes=3, class_names=("x", "y", "z"))
    folders = write_parties(halves(graph), tmp_path / "p")
    alone = load_party(folders[1])
    assert (alone.classes, alone.y.tolist()) == (3, [0, 2, 0, 2])


@st.composite
def federations(draw) -> list[Graph]:
    """Parties that hold arbitrary parts of one graph, with their own nodes, edges and order."""
    n = draw(st.integers(1, 12))
    classes = draw(st.integers(1, 3))
    features = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.integers(-1, 2, (n, features)).astype(draw(st.sampled_from(["float32", "float64"])))
    labels = rng.integers(-1, classes, n)
    split = np.where(labels < 0, 3, rng.integers(0, 4, n))
    text = draw(st.booleans())
    names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=5)
    keys = st.lists(names, min_size=n, max_size=n, unique=True)
    ids = draw(keys) if text else rng.permutation(n * 3)[:n]
    edges = rng.integers(0, n, (2, draw(st.integers(0, 20))))
    graph = Graph(
        x=sparse.csr_array(x) if draw(st.booleans()) else x,
        edges=edges,
        y=labels,
        classes=classes,
        train=split == 0,
        val=split == 1,
        test=split == 2,
        ids=np.array(ids, dtype=str if text else np.int64),
        name=draw(names),
        class_names=tuple(f"class {c}" for c in range(classes)) if draw(st.booleans()) else (),
        feature_names=tuple(f"x {f}" for f in range(features)) if draw(st.booleans()) else (),
    )
    holdings = [
        Holding(
            draw(names),
            rng.permutation(n)[: draw(st.integers(1, n))],
            np.flatnonzero(rng.random(edges.shape[1]) < 0.7),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    parties = [graph.held(holding) for holding in holdings]
    return [_with_own_view(party, rng) if draw(st.booleans()) else party for party in parties]


def _with_own_view(party: Graph, rng: np.random.Generator) -> Graph:
    """A party that measured some features otherwise, and lacks some labels and splits."""
    n = party.nodes
    known, used = rng.random(n) < 0.7, rng.random(n) < 0.7
    x = dense(party.x) + (rng.random((n, 1)) < 0.3).astype(party.x.dtype)
    return replace(
        party,
        x=sparse.csr_array(x) if sparse.issparse(party.x) else x,
        y=np.where(known, party.y, -1),
        train=party.train & known & used,
        val=party.val & known & used,
        test=party.test & known & used,
    )


@settings(max_examples=60, deadline=None)
@given(federations())
def test_any_federation_comes_back_as_it_was(tmp_path_factory, parties):
    folder = tmp_path_factory.mktemp("round-trip") / "p"
    folders = write_parties(parties, folder)
    for party, own in zip(parties, folders, strict=True):
        same(party, load_party(own))
    whole = Parties(folder=str(folder)).load()
    together = {holding.name: [] for holding in whole.holdings}
    for holding in whole.holdings:
        together[holding.name].append(whole.held(holding))
    # Folders are read by name; parties of one name come in the order they were written.
    for party in parties:
        same(party, together[party.name].pop(0))


def test_a_large_bag_of_words_never_becomes_dense(tmp_path):
    """The size of Coauthor Physics: 1.2 GB if it were dense."""
    rng = np.random.default_rng(0)
    n, words, stored = 34_493, 8_415, 1_100_000
    entries = (
        np.ones(stored, np.float32),
        (rng.integers(n, size=stored), rng.integers(words, size=stored)),
    )
    x = sparse.csr_array(entries, shape=(n, words))
    graph = make_graph(x, rng.integers(n, size=(2, 250_000)), rng.integers(5, size=n))
    parties = [graph.subgraph(part) for part in np.array_split(np.arange(n), 3)]
    tracemalloc.start()
    try:
        write_parties(parties, tmp_path / "p")
        whole = Parties(folder=str(tmp_path / "p")).load()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300e6
    assert (whole.x != x).nnz == 0


def test_parties_are_read_in_the_order_of_their_numbers(tmp_path):
    graph = wheel()
    parties = [graph.subgraph(np.array([i % 6]), name=f"wheel client {i}") for i in range(12)]
    write_parties(parties, tmp_path / "p")
    names = [h.name for h in Parties(folder=str(tmp_path / "p")).load().holdings]
    assert names == [f"wheel client {i}" for i in range(12)]


def test_from_tables_through_folders_to_a_trained_federation(tmp_path):
    """Splitting first and training from the folders is the same as training at once."""
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 2
    nodes = polars.DataFrame(
        {
            "id": [f"n{i}" for i in range(60)],
            "label": np.array(["cat", "dog"])[kind],
            "size": kind + 0.4 * rng.standard_normal(60),
            "home": ["north" if i % 3 else "south" for i in range(60)],
        }
    )
    nodes.write_csv(tmp_path / "nodes.csv")
    a, b = np.nonzero(rng.random((60, 60)) < np.where(kind[:, None] == kind, 0.2, 0.01))
    pairs = {"source": [f"n{i}" for i in a], "target": [f"n{i}" for i in b]}
    polars.DataFrame(pairs).write_csv(tmp_path / "edges.csv")
    tables = Tables(
        nodes=str(tmp_path / "nodes.csv"), edges=str(tmp_path / "edges.csv"), owner="home"
    )
    whole = Split().apply(tables.load(), rng)
    write_parties([whole.held(h) for h in whole.holdings], tmp_path / "parties")
    folders = Parties(folder=str(tmp_path / "parties"))
    result = atoll.run(data=folders, partition="natural", rounds=20, out=tmp_path / "run")
    assert [client["nodes"] for client in result.per_client] == [40, 20]
    assert result.test_accuracy > 0.8
