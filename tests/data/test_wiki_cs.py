import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll.data.wiki_cs import WikiCS
from atoll.errors import AtollError


def write_wiki(folder: Path, **changed: Any) -> Path:
    """Articles 0 -> 1, 1 -> 0, 1 -> 2 and a lonely 3, in the published layout."""
    lit = [[node == which for node in range(4)] for which in range(4)]
    stored = {
        "features": [[0.5, -1.0], [0.25, 2.0], [1.0, 1.0], [0.0, 3.0]],
        "labels": [0, 1, 1, 0],
        "links": [[1], [0, 2, 1], [], []],
        "train_masks": [lit[0]] * 19 + [lit[1]],
        "val_masks": [lit[1]] * 19 + [lit[0]],
        "stopping_masks": [lit[3]] * 20,
        "test_mask": lit[2],
    }
    path = folder / "WikiCS/raw/data.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(stored | changed))
    return path


def test_the_published_layout(data_folder: Path) -> None:
    write_wiki(data_folder)
    graph = WikiCS().load()
    assert graph.edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    np.testing.assert_array_equal(graph.x[1], np.float32([0.25, 2.0]))
    assert graph.y.tolist() == [0, 1, 1, 0]
    assert [np.flatnonzero(m).tolist() for m in (graph.train, graph.val, graph.test)] == [
        *([0], [1], [2]),
    ]


def test_a_published_split_is_chosen(data_folder: Path) -> None:
    write_wiki(data_folder)
    graph = WikiCS(split=19).load()
    assert [np.flatnonzero(m).tolist() for m in (graph.train, graph.val, graph.test)] == [
        *([1], [0], [2]),
    ]
    with pytest.raises(
        AtollError, match=r"data.split is 20; .* at most 19 \(20 splits were published\)"
    ):
        WikiCS(split=20)


def test_options(data_folder: Path) -> None:
    write_wiki(data_folder)
    graph = WikiCS(largest_component=True, normalise=True).load()
    assert graph.ids.tolist() == [0, 1, 2]
    np.testing.assert_allclose(graph.x.sum(axis=1), [1, 1, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"links": [[1], [9], [], []]}, "its edges name nodes outside 0 to 3"),
        ({"links": [[1], ["a"], [], []]}, "invalid literal"),
        ({"labels": [0, 1]}, "its labels are int64"),
        ({"features": [[1.0], [1.0, 2.0], [1.0], [1.0]]}, "setting an array element"),
        ({"train_masks": []}, "list index out of range"),
    ],
)
def test_damage_is_named(data_folder: Path, changed: dict[str, Any], reason: str) -> None:
    path = write_wiki(data_folder, **changed)
    with pytest.raises(AtollError) as problem:
        WikiCS().load()
    assert str(problem.value).startswith(f"'{path}' can't be read as Wiki-CS ({reason}")


def test_half_a_file(data_folder: Path) -> None:
    path = write_wiki(data_folder)
    path.write_text(path.read_text()[:100])
    with pytest.raises(AtollError, match=r"data.json' can't be read as Wiki-CS"):
        WikiCS().load()


@pytest.mark.usefixtures("torch_geometric")
def test_torch_geometric_reads_the_same(data_folder: Path, tmp_path: Path) -> None:
    from torch_geometric.datasets import WikiCS as Theirs

    write_wiki(tmp_path / "copy")
    write_wiki(data_folder)
    theirs = Theirs(str(tmp_path / "copy" / "WikiCS"), is_undirected=True)[0]
    ours = WikiCS(split=3).load()
    np.testing.assert_array_equal(ours.x, theirs.x.numpy())
    loops = theirs.edge_index[0] == theirs.edge_index[1]
    np.testing.assert_array_equal(ours.edges, theirs.edge_index[:, ~loops].numpy())
    np.testing.assert_array_equal(ours.train, theirs.train_mask[:, 3].numpy())
    np.testing.assert_array_equal(ours.val, theirs.val_mask[:, 3].numpy())
    np.testing.assert_array_equal(ours.test, theirs.test_mask.numpy())
