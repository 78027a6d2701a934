import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from atoll.data.base import datasets
from atoll.data.planetoid import CiteSeer, Cora
from atoll.data.split import Split
from atoll.errors import AtollError
from atoll.graph import dense

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def write_planetoid(root: Path, **changed: Any) -> Path:
    """Seven papers in CiteSeer's layout: 0 to 3 known, tests 6 and 4, and 5 only ever cited.

    Citations: 0 - 1 - 2 - 3 - 4, 5 - 6, and 1 cites itself.
    """

    def words(*rows: list[int]) -> sparse.csr_matrix:
        return sparse.csr_matrix(np.array(rows, dtype=np.float32))

    parts = {
        "x": words([1, 0, 1]),
        "allx": words([1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0]),
        "tx": words([1, 1, 1], [0, 1, 1]),
        "y": np.array([[1, 0]]),
        "ally": np.array([[1, 0], [0, 1], [0, 1], [1, 0]]),
        "ty": np.array([[0, 1], [1, 0]]),
        "graph": {0: [1, 1], 1: [0, 1, 2], 2: [3], 3: [4], 4: [], 5: [6], 6: [5]},
        "test.index": "6\n4\n",
    } | changed
    raw = root / "CiteSeer" / "raw"
    raw.mkdir(parents=True)
    for part, content in parts.items():
        path = raw / f"ind.citeseer.{part}"
        if isinstance(content, str):
            path.write_text(content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    return raw


def test_test_rows_are_put_back_in_their_places(data_folder: Path) -> None:
    write_planetoid(data_folder)
    graph = CiteSeer(largest_component=False, normalise=False).load()
    assert sparse.issparse(graph.x)
    assert dense(graph.x).astype(int).tolist() == [
        *([1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0]),
        *([0, 1, 1], [0, 0, 0], [1, 1, 1]),
    ]
    assert graph.y.tolist() == [0, 1, 1, 0, 0, -1, 1]
    assert (graph.edges.shape[1], graph.classes) == (2 * 5, 2)


def test_the_published_split(data_folder: Path) -> None:
    write_planetoid(data_folder)
    graph = CiteSeer(largest_component=False).load()
    assert np.flatnonzero(graph.train).tolist() == [0]
    assert np.flatnonzero(graph.val).tolist() == [1, 2, 3]
    assert np.flatnonzero(graph.test).tolist() == [4, 6]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"allx": b"not a pickle"}, "ind.citeseer.allx' can't be read as a Planetoid file"),
        ({"graph": {0: [99]}}, "its edges name nodes outside 0 to 6"),
        ({"graph": [1, 2]}, "can't be read as the files of citeseer"),
        ({"ty": np.array([[0, 1]])}, "can't be read as the files of citeseer"),
        ({"test.index": "six\n"}, "ind.citeseer.test.index' can't be read as a list"),
    ],
)
def test_damage_is_named(data_folder: Path, changed: dict[str, Any], sentence: str) -> None:
    write_planetoid(data_folder, **changed)
    with pytest.raises(AtollError, match=sentence) as problem:
        CiteSeer().load()
    assert "\n" not in str(problem.value)


def test_code_in_a_pickle_is_not_run(data_folder: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    write_planetoid(data_folder, allx=pickle.dumps(Bomb()))
    with pytest.raises(AtollError, match=r"it needs posix\.mkdir"):
        CiteSeer().load()
    assert not (tmp_path / "exploded").exists()


def test_missing_files_are_named(data_folder: Path) -> None:
    raw = write_planetoid(data_folder)
    (raw / "ind.citeseer.tx").unlink()
    with pytest.raises(AtollError, match=r"citeseer: '.*ind.citeseer.tx' is missing; put it there"):
        CiteSeer().load()


@pytest.mark.usefixtures("torch_geometric")
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_torch_geometric_reads_the_same(name: str, real_data: Path, tmp_path: Path) -> None:
    """Words, citations, topics and masks, but for 15 papers of CiteSeer without a topic."""
    from torch_geometric.datasets import Planetoid

    shutil.copytree(real_data / name / "raw", tmp_path / name / "raw")
    theirs = Planetoid(str(tmp_path), name)[0]
    ours = datasets[name.lower()](largest_component=False, normalise=False).load()
    assert (sparse.csr_array(theirs.x.numpy()) != ours.x).nnz == 0
    edges = theirs.edge_index.numpy()
    np.testing.assert_array_equal(ours.edges, edges[:, np.lexsort((edges[1], edges[0]))])
    unknown = ours.y < 0
    assert unknown.sum() == (15 if name == "CiteSeer" else 0)
    np.testing.assert_array_equal(ours.y[~unknown], theirs.y.numpy()[~unknown])
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(getattr(ours, part), theirs[f"{part}_mask"].numpy())


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(
    ("name", "whole", "component"),
    [
        ("cora", (140, 500, 1000), (122, 459, 915)),
        ("citeseer", (120, 500, 1000), (80, 328, 663)),
        ("pubmed", (60, 500, 1000), (60, 500, 1000)),
    ],
)
def test_the_public_split_shrinks_with_the_largest_component(
    name: str, whole: tuple[int, ...], component: tuple[int, ...]
) -> None:
    for largest, expected in ((False, whole), (True, component)):
        graph = datasets[name](largest_component=largest).load()
        public = Split(kind="public").apply(graph, np.random.default_rng(0))
        assert tuple(int(m.sum()) for m in (public.train, public.val, public.test)) == expected
    assert np.bincount(public.y[public.train]).max() <= 20


@pytest.mark.usefixtures("torch_geometric")
def test_files_are_downloaded_from_where_torch_geometric_gets_them(
    real_data: Path,
    empty_home: Path,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
    same_graph: Callable[..., None],
) -> None:
    from torch_geometric.datasets import Planetoid

    monkeypatch.setattr(Planetoid, "url", server.url)
    for path in (real_data / "Cora" / "raw").iterdir():
        server.content[f"/{path.name}"] = path.read_bytes()
    downloaded = Cora().load()
    assert len(list(empty_home.glob("Cora/raw/*"))) == 7
    monkeypatch.setenv("ATOLL_DATA", str(real_data))
    same_graph(downloaded, Cora().load())
