"""Parties' folders: written and read back, or made by hand, alone or together."""

import tomllib
import tracemalloc
from dataclasses import replace

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import atoll
from atoll.data import Columns, Parties, Tables, load_party, write_parties
from atoll.data.split import Split
from atoll.errors import AtollError
from atoll.graph import Graph, Holding, dense, make_graph
from atoll.partition.natural import Natural

ARRAYS = ("edges", "y", "train", "val", "test", "ids")


def same(a: Graph, b: Graph) -> None:
    """Equal to the bit, up to the name and to explicit zeros of sparse features."""
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(a, array), getattr(b, array), err_msg=array)
    assert sparse.issparse(a.x) == sparse.issparse(b.x)
    assert a.x.dtype == b.x.dtype
    np.testing.assert_array_equal(dense(a.x), dense(b.x))
    assert (a.classes, a.class_names) == (b.classes, b.class_names)
    assert a.feature_names == b.feature_names


def wheel(**changed) -> Graph:
    """Six nodes in a ring, two classes, each in a split."""
    ring = np.arange(6)
    graph = make_graph(
        np.arange(12, dtype=np.float32).reshape(6, 2),
        np.stack([ring, (ring + 1) % 6]),
        ring % 2,
        ids=np.array([f"n{i}" for i in ring]),
        name="wheel",
    )
    masks = {"train": ring < 2, "val": (ring == 2) | (ring == 3), "test": ring > 3}
    return replace(graph, **(masks | changed))


def halves(graph: Graph) -> list[Graph]:
    """Two parties that share the nodes 2 and 3, and each lack an edge between their own nodes."""
    left = Holding("left", np.array([0, 1, 2, 3]), _edges(graph, [(0, 1), (1, 2)]))
    right = Holding("right", np.array([5, 4, 3, 2]), _edges(graph, [(2, 3), (4, 5)]))
    return [graph.held(left), graph.held(right)]


def _edges(graph: Graph, pairs: list[tuple[int, int]]) -> np.ndarray:
    both = {*pairs, *((b, a) for a, b in pairs)}
    return np.array([i for i, pair in enumerate(graph.edges.T.tolist()) if tuple(pair) in both])


def round_trip(parties, folder) -> list[Graph]:
    write_parties(parties, folder)
    whole = Parties(folder=str(folder)).load()
    return [whole.held(holding) for holding in whole.holdings]


def complaint(act, *arguments, **options):
    with pytest.raises(AtollError) as problem:
        act(*arguments, **options)
    said = str(problem.value)
    assert "\n" not in said
    return said


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


def test_what_a_folder_holds(tmp_path):
    parties = [
        replace(p, class_names=("no", "yes"), feature_names=("a", "label"))
        for p in halves(wheel(y=np.array([0, 1, 0, 1, 0, 1]), test=np.zeros(6, bool)))
    ]
    folders = write_parties(parties, tmp_path / "p")
    assert [folder.name for folder in folders] == ["wheel-left", "wheel-right"]
    assert sorted(file.name for file in folders[0].iterdir()) == [
        "edges.parquet", "nodes.parquet", "party.toml",
    ]  # fmt: skip
    nodes = polars.read_parquet(folders[1] / "nodes.parquet")
    # A feature is called label, so the label is not.
    assert nodes.to_dict(as_series=False) == {
        "id": ["n5", "n4", "n3", "n2"],
        "label_": ["yes", "no", "yes", "no"],
        "split": [None, None, "val", "val"],
        "a": [10, 8, 6, 4],
        "label": [11, 9, 7, 5],
    }
    edges = polars.read_parquet(folders[0] / "edges.parquet")
    assert edges.rows() == [("n0", "n1"), ("n1", "n0"), ("n1", "n2"), ("n2", "n1")]
    said = tomllib.loads((folders[0] / "party.toml").read_text())
    assert said == {
        "version": 1,
        "name": "wheel left",
        "classes": 2,
        "class_names": ["no", "yes"],
        "columns": {"id": "id", "label": "label_", "split": "split"},
        "features": {"kind": "columns", "count": 2, "names": ["a", "label"], "named": True},
        "counts": {"nodes": 4, "edges": 4, "labelled": 4, "train": 2, "val": 2, "test": 0},
    }
    same(load_party(folders[0]), parties[0])


def test_sparse_features_are_written_as_two_lists(tmp_path):
    x = sparse.csr_array(np.array([[0, 5, 0], [0, 0, 0], [1, 0, 2]], dtype=np.float32))
    graph = make_graph(x, np.array([[0], [2]]), np.array([0, 1, 0]), name="bag")
    [folder] = write_parties([graph], tmp_path / "p")
    nodes = polars.read_parquet(folder / "nodes.parquet")
    assert nodes["feature_indices"].to_list() == [[1], [], [0, 2]]
    assert nodes["feature_values"].to_list() == [[5], [], [1, 2]]
    same(load_party(folder), graph)


def test_a_party_alone_numbers_classes_as_all_do(tmp_path):
    """The right party never sees class 1, yet 2 stays 2."""
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


def test_names_that_are_no_folder_names(tmp_path):
    names = ["a/b", "a b", "A b", "../..", "", "Zürich", "x" * 300]
    parties = [replace(wheel(), name=name) for name in names]
    folders = write_parties(parties, tmp_path / "p")
    assert [folder.name for folder in folders] == [
        "a-b", "a-b-2", "A-b-3", "party", "party-2", "Zürich", "x" * 80,
    ]  # fmt: skip
    assert sorted(folder.parent for folder in folders) == [tmp_path / "p"] * 7


def test_nothing_is_left_of_a_write_that_fails(tmp_path, monkeypatch):
    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(polars.DataFrame, "write_parquet", full_disk)
    assert complaint(write_parties, halves(wheel()), tmp_path / "p") == (
        f"'{tmp_path / 'p'}' can't be written (No space left on device); choose another folder."
    )
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled_and_a_full_one_refused(tmp_path):
    (tmp_path / "p").mkdir()
    write_parties(halves(wheel()), tmp_path / "p")
    assert complaint(write_parties, halves(wheel()), tmp_path / "p") == (
        f"'{tmp_path / 'p'}' is not empty; name a new folder for the parties."
    )
    (tmp_path / "file").write_text("")
    assert complaint(write_parties, halves(wheel()), tmp_path / "file") == (
        f"'{tmp_path / 'file'}' is a file; name a new folder for the parties."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "p"]


@pytest.mark.parametrize(
    ("parties", "said"),
    [
        ([], "there is no party to write; cut the graph into at least one."),
        ([wheel(), wheel(x=np.ones((6, 3)), name="other")],
         "other and wheel have different features; parties of one federation need the same."),
        ([wheel(), wheel(classes=3, name="other")],
         "other and wheel have different classes; parties of one federation need the same."),
        ([wheel(feature_names=("a",))],
         "wheel has 1 feature names for 2 features; name each or none."),
        ([wheel(ids=np.array(list("abcdea")))],
         "wheel has two nodes with the id 'a'; a party holds an entity once."),
        ([wheel(train=np.ones(6, bool))],
         "wheel has the node 'n2' in more than one of train, val and test; put it into one."),
    ],
)  # fmt: skip
def test_parties_that_can_not_be_written(tmp_path, parties, said):
    assert complaint(write_parties, parties, tmp_path / "p") == said
    assert list(tmp_path.iterdir()) == []


NORTH = {
    "nodes.csv": "id,label,age,sex\np1,ill,30,f\np2,well,41,m\np3,,50,f\n",
    "edges.csv": "source,target\np1,p2\np2,p3\n",
}
SOUTH = {
    "nodes.csv": "id,label,age,sex\np3,ill,55,x\np4,dead,60,f\n",
    "edges.csv": "source,target\np3,p4\n",
}


@pytest.fixture
def by_hand(tmp_path, monkeypatch):
    """Makes the folders north and south, with files changed, added or (None) left out."""
    monkeypatch.chdir(tmp_path)

    def make(**changed):
        for name, files in {"north": NORTH, "south": SOUTH}.items():
            folder = tmp_path / "p" / name
            folder.mkdir(parents=True)
            for file, content in (files | changed.get(name, {})).items():
                if content is not None:
                    (folder / file).write_text(content)
        return Parties(folder="p")

    return make


def test_folders_made_by_hand(by_hand):
    whole = by_hand().load()
    assert whole.ids.tolist() == ["p1", "p2", "p3", "p4"]
    # Classes and categories are those of all parties.
    assert whole.class_names == ("dead", "ill", "well")
    assert whole.feature_names == ("age", "sex=f", "sex=m", "sex=x")
    assert whole.y.tolist() == [1, 2, 1, 0]
    # The whole has p3 as the first party sees it.
    assert whole.x[2].tolist() == [50, 1, 0, 0]
    north, south = (whole.held(holding) for holding in whole.holdings)
    assert [holding.name for holding in whole.holdings] == ["north", "south"]
    # Each party keeps its own features of p3, and north does not know its label.
    assert north.x[2].tolist() == [50, 1, 0, 0]
    assert south.x[0].tolist() == [55, 0, 0, 1]
    assert north.y.tolist() == [1, 2, -1]
    assert south.y.tolist() == [1, 0]
    assert north.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert south.edges.tolist() == [[0, 1], [1, 0]]


def test_a_split_of_the_whole_leaves_a_party_what_it_knows(by_hand):
    whole = by_hand().load()
    every = np.ones(4, dtype=bool)
    north = replace(whole, train=every).held(whole.holdings[0])
    assert north.train.tolist() == [True, True, False]


def test_splits_of_the_parties_survive(by_hand):
    data = replace(
        by_hand(
            north={"nodes.csv": "id,label,age,part\np1,a,1,train\np2,b,2,val\np3,a,3,\n"},
            south={"nodes.csv": "id,label,age,part\np3,a,3,test\np4,b,4,train\n"},
        ),
        split="part",
    )
    whole = data.load()
    assert whole.train.tolist() == [True, False, False, True]
    assert whole.test.tolist() == [False, False, True, False]
    north, south = (whole.held(holding) for holding in whole.holdings)
    # South tests on p3; north knows its label but leaves it out.
    assert north.test.tolist() == [False, False, False]
    assert north.y.tolist() == [0, 1, 0]
    assert south.test.tolist() == [True, False]


def test_a_party_made_by_hand_alone(by_hand):
    by_hand()
    south = load_party("p/south")
    assert south.class_names == ("dead", "ill")
    agreed = load_party("p/south", Columns(class_names=("ill", "well", "dead")))
    assert agreed.y.tolist() == [0, 2]


def test_an_agreement_in_party_toml_makes_alone_and_together_equal(by_hand):
    agreed = (
        'class_names = ["ill", "well", "dead"]\n[categories]\nsex = ["x", "m", "f", "unknown"]\n'
    )
    data = by_hand(north={"party.toml": agreed}, south={"party.toml": 'name = "S"\n' + agreed})
    whole = data.load()
    assert whole.class_names == ("ill", "well", "dead")
    assert whole.feature_names == ("age", "sex=x", "sex=m", "sex=f", "sex=unknown")
    assert [holding.name for holding in whole.holdings] == ["north", "S"]
    for folder, holding in zip(("p/north", "p/south"), whole.holdings, strict=True):
        same(load_party(folder), whole.held(holding))


def test_each_party_standardises_by_itself(by_hand):
    whole = replace(by_hand(), standardise=True, features=("age",)).load()
    south = whole.held(whole.holdings[1])
    assert south.x.tolist() == [[-1], [1]]
    same(
        load_party("p/south", Columns(standardise=True, features=("age",))),
        replace(south, y=np.array([1, 0]), classes=2, class_names=("dead", "ill")),
    )


def test_one_party_in_csv_and_one_in_parquet(by_hand, tmp_path):
    data = by_hand(south={"nodes.csv": None})
    south = polars.DataFrame({"id": [3, 4], "label": ["ill", "well"], "age": [1, 2], "sex": "f"})
    south.write_parquet(tmp_path / "p" / "south" / "nodes.parquet")
    (tmp_path / "p" / "south" / "edges.csv").write_text("source,target\n3,4\n")
    north = tmp_path / "p" / "north" / "nodes.csv"
    north.write_text(north.read_text().replace("p", ""))
    (north.parent / "edges.csv").write_text("source,target\n1,2\n")
    assert data.load().ids.tolist() == ["1", "2", "3", "4"]


def test_other_column_names(by_hand):
    data = by_hand(
        north={"nodes.csv": NORTH["nodes.csv"].replace("id,label", "key,state")},
        south={"nodes.csv": SOUTH["nodes.csv"].replace("id,label", "key,state")},
    )
    assert replace(data, id="key", label="state").load().nodes == 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("id", "key")}},
         "'p/south/nodes.csv' has no column 'id'; set data.id to the one that plays its part "
         "(there is: key, label, age, sex)."),
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("60", "old")}},
         "'p/south/nodes.csv', column 'age', line 3: 'old' stands in a column that also holds "
         "numbers (55 in line 2); correct it, or list the column in data.categorical."),
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("60", "")}},
         "'p/south/nodes.csv', column 'age', line 3: the number is missing; fill it in, drop the "
         "row or leave the column out."),
        ({"south": {"edges.csv": "source,target\np4,p1\n"}},
         "'p/south/edges.csv', column 'target', line 2: 'p1' is no node of 'p/south/nodes.csv'; "
         "add it there or drop the edge."),
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("age", "ages")}},
         "'p/south/nodes.csv' has no column 'age', which 'p/north/nodes.csv' has; give all "
         "parties the same feature columns, or list the common ones in data.features."),
        ({"south": {"nodes.csv": "id,label,age,sex,more\np3,ill,55,x,1\n",
                    "edges.csv": "source,target\n"}},
         "'p/north/nodes.csv' has no column 'more', which 'p/south/nodes.csv' has; give all "
         "parties the same feature columns, or list the common ones in data.features."),
        ({"south": {"nodes.csv": "id,label,age,sex\np3,ill,old,x\n",
                    "edges.csv": "source,target\n"}},
         "column 'age' holds numbers in 'p/north/nodes.csv' but categories in "
         "'p/south/nodes.csv'; make them alike, or list the column in data.categorical."),
        ({"north": {"nodes.csv": NORTH["nodes.csv"].replace("p3,,", "p3,well,")}},
         "the party 'north' labels the node 'p3' well, the party 'south' ill; correct one of them "
         "or leave one empty."),
        ({"south": {"nodes.csv": None}},
         "the party's folder 'p/south' has neither nodes.parquet nor nodes.csv; add one."),
        ({"south": {"edges.parquet": ""}},
         "the party's folder 'p/south' has both edges.parquet and edges.csv; keep one."),
        ({"south": {"nodes.csv": "id,label,age,sex\n"}},
         "'p/south/nodes.csv' has no rows below its header; give a table with nodes."),
        ({"south": {"party.toml": "class_name = []"}},
         "unknown key of 'p/south/party.toml' 'class_name': did you mean 'class_names'?"),
        ({"south": {"party.toml": "class_names = 3"}},
         "'p/south/party.toml': class_names must be a list; correct it."),
        ({"south": {"party.toml": "version = 2"}},
         "'p/south/party.toml' has the version 2, this Atoll reads 1; use the Atoll that wrote "
         "it."),
        ({"north": {"party.toml": 'class_names = ["ill", "well", "dead"]'},
          "south": {"party.toml": 'class_names = ["ill", "dead", "well"]'}},
         "the parties 'north' and 'south' disagree on the classes in their party.toml (ill, well, "
         "dead; ill, dead, well); agree on one list."),
        ({"north": {"party.toml": 'class_names = ["ill", "well"]'}},
         "'p/south/nodes.csv', column 'label', line 3: 'dead' is none of the classes ill, well; "
         "correct it, or add it to data.class_names."),
        ({"south": {"party.toml": 'categories.sex = ["f"]'}},
         "'p/north/nodes.csv', column 'sex', line 3: 'm' is none of the categories f; correct it, "
         "or add it to the categories all parties agreed on."),
        ({"north": {"party.toml": 'categories.sex = ["f", "m"]'},
          "south": {"party.toml": 'categories.sex = ["m", "f"]'}},
         "two parties disagree on the categories of 'sex' in their party.toml (f, m; m, f); agree "
         "on one list."),
    ],
)  # fmt: skip
def test_what_is_wrong_in_folders_made_by_hand(by_hand, changed, said):
    assert complaint(by_hand(**changed).load) == said


def test_two_splits_for_one_node(by_hand):
    data = by_hand(
        north={"nodes.csv": "id,label,age,part\np1,a,1,\np2,b,1,\np3,a,3,train\n"},
        south={"nodes.csv": "id,label,age,part\np3,a,3,test\np4,b,4,train\n"},
    )
    assert complaint(replace(data, split="part").load) == (
        "the party 'north' has the node 'p3' in train, the party 'south' in test; put it into the "
        "same split in both."
    )


def test_wrong_folders(by_hand, tmp_path):
    by_hand()
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for folder, said in {
        "": "data.folder is not given; set it to the folder of the parties' folders.",
        "none": "there is no folder 'none' (data.folder); check the path.",
        "file": "'file' (data.folder) is a file; name the folder of all parties.",
        "empty": "'empty' (data.folder) has no folder in it; put one for each party there.",
        "p/north": "'p/north' (data.folder) is the folder of a single party; name the one above "
        "it.",
    }.items():
        assert complaint(Parties(folder=folder).load) == said
    assert complaint(load_party, "none") == "there is no folder 'none'; check the path."
    assert complaint(load_party, "file") == "'file' is a file; name the party's folder."


def test_stray_files_beside_the_parties_do_no_harm(by_hand, tmp_path):
    data = by_hand()
    (tmp_path / "p" / "README.txt").write_text("parties")
    (tmp_path / "p" / ".hidden").mkdir()
    assert len(data.load().holdings) == 2


def written(tmp_path, graph=None) -> tuple[str, str]:
    folders = write_parties([graph or wheel(class_names=("a", "b"))], tmp_path / "p")
    return str(folders[0]), (folders[0] / "party.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nodes = 6", "nodes = 7",
         "'{f}/nodes.parquet' has 6 nodes, but its party.toml counts 7; one of them is damaged or "
         "not of this party."),
        ('"b"', '"c"',
         "'{f}/nodes.parquet', column 'label', row 2: 'b' is no class of its party.toml; one of "
         "them is damaged."),
        ('"f1"', '"g1"',
         "unknown column of '{f}/nodes.parquet' (data.features) 'g1': did you mean 'f1'?"),
        ('"f1"', '"id"', "'{f}/nodes.parquet', column 'id': it holds String, not numbers."),
        ('kind = "columns"', 'kind = "matrix"',
         "'{f}/party.toml' is damaged (KeyError: 'matrix'); fetch it anew."),
        ("version = 1", "version =",
         "'{f}/party.toml' can't be read as TOML (Invalid value (at line 1, column 10)); write it "
         "anew."),
    ],
)  # fmt: skip
def test_written_folders_that_were_tampered_with(tmp_path, old, new, said):
    folder, manifest = written(tmp_path)
    assert old in manifest
    (tmp_path / "p" / "wheel" / "party.toml").write_text(manifest.replace(old, new))
    assert complaint(load_party, folder) == said.format(f=folder)


def test_sparse_features_that_were_tampered_with(tmp_path):
    folder, _ = written(tmp_path, wheel(x=sparse.csr_array(wheel().x)))
    nodes = polars.read_parquet(f"{folder}/nodes.parquet")
    start = f"'{folder}/nodes.parquet': feature_indices and feature_values do not fit together ("
    for column in (
        polars.col("feature_indices") + 5,
        polars.col("feature_values").list.head(1),
        polars.lit(1).alias("feature_values"),
    ):
        nodes.with_columns(column).write_parquet(f"{folder}/nodes.parquet")
        said = complaint(load_party, folder)
        assert said.startswith(start)
        assert said.endswith("); the file is damaged, fetch it anew.")


def test_written_features_are_not_standardised(tmp_path):
    written(tmp_path)
    assert complaint(Parties(folder=str(tmp_path / "p"), standardise=True).load) == (
        "data.standardise is for folders made by hand; these were written with their features as "
        "they are: standardise before the split."
    )


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
