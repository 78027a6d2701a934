"""What is written for a party, and what is refused."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest
from complaints import complaint
from party_examples import halves, same, wheel
from scipy import sparse

from atoll.data import datasets, load_party, write_parties
from atoll.graph import make_graph
from small_collections import collection_parties


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


def test_names_that_are_no_folder_names(tmp_path):
    names = ["a/b", "a b", "A b", "../..", "", "Zürich", "x" * 300]
    parties = [replace(wheel(), name=name) for name in names]
    folders = write_parties(parties, tmp_path / "p")
    assert [folder.name for folder in folders] == [
        "a-b", "a-b-2", "A-b-3", "party", "party-2", "Zürich", "x" * 80,
    ]  # fmt: skip
    assert sorted(folder.parent for folder in folders) == [tmp_path / "p"] * 7


def test_nothing_is_left_of_a_write_that_fails(tmp_path, monkeypatch):
    """The disk is full when the second party's edges are written."""
    written = []
    write = polars.DataFrame.write_parquet

    def full_disk(frame, file):
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(file)
        write(frame, file)

    monkeypatch.setattr(polars.DataFrame, "write_parquet", full_disk)
    assert complaint(write_parties, halves(wheel()), tmp_path / "p") == (
        f"'{tmp_path / 'p'}' can't be written (No space left on device); choose another folder."
    )
    assert len(written) == 3
    assert list(tmp_path.iterdir()) == []


def test_the_folder_appears_in_one_step_when_it_is_complete(tmp_path, monkeypatch):
    target = tmp_path / "p"
    steps = []
    rename = Path.rename

    def watched(path, to):
        assert not target.exists()
        steps.append((to, sorted(file.name for file in path.rglob("*.*"))))
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", watched)
    write_parties(halves(wheel()), target)
    files = sorted(["edges.parquet", "nodes.parquet", "party.toml"] * 2)
    assert steps == [(target, files)]
    assert list(tmp_path.iterdir()) == [target]


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
         "the parties 'wheel' and 'other' have different feature columns (their order or number "
         "differs); give all parties the same."),
        ([wheel(), wheel(classes=3, name="other")],
         "the parties 'wheel' and 'other' have different classes; give all parties the same "
         "class_names."),
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


def test_small_graphs_keep_their_numbers(tmp_path):
    parties = collection_parties((5, 7))
    folders = write_parties(parties, tmp_path / "p")
    for folder, party in zip(folders, parties, strict=True):
        read = load_party(folder)
        same(read, party)
        assert read.graph_of.tolist() == party.graph_of.tolist()
    whole = datasets["parties"](folder=str(tmp_path / "p")).load()
    assert len(whole.first_nodes) == 12
    assert whole.held(whole.holdings[1]).graph_of.tolist() == parties[1].graph_of.tolist()


def test_spaces_of_their_own_and_kinds_of_their_own_are_refused(tmp_path):
    one, other = collection_parties((5, 7))
    for unlike, said in (
        (replace(other, space="b"), "mean something else to the party"),
        (replace(other, graph_of=None), "holds many small graphs"),
    ):
        assert said in complaint(write_parties, [one, unlike], tmp_path / "p")
