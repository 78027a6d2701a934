import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll.data import ogb
from atoll.data.ogb import Arxiv, Products
from atoll.errors import AtollError

ARXIV = {
    "raw/edge.csv.gz": "0,1\n1,0\n2,1\n3,3\n",
    "raw/node-feat.csv.gz": "-0.5,1,2\n3,4,5e-1\n6,7,8\n9,10,11\n",
    "raw/node-label.csv.gz": "39\n0\n2\n1\n",
    "split/time/train.csv.gz": "0\n",
    "split/time/valid.csv.gz": "3\n",
    "split/time/test.csv.gz": "1\n2\n",
}


def write_ogb(folder: Path, **changed: str) -> None:
    """Papers 0 - 1 - 2 and a lonely 3 that cites itself, in the published layout."""
    for name, text in (ARXIV | changed).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def test_the_published_layout(data_folder: Path) -> None:
    write_ogb(data_folder / "ogbn_arxiv")
    graph = Arxiv().load()
    np.testing.assert_array_equal(
        graph.x, np.float32([[-0.5, 1, 2], [3, 4, 0.5], [6, 7, 8], [9, 10, 11]])
    )
    assert graph.x.dtype == np.float32
    assert graph.x.flags.c_contiguous
    assert graph.edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.y.tolist() == [39, 0, 2, 1]
    assert graph.classes == 40
    assert graph.train.tolist() == [True, False, False, False]
    assert graph.val.tolist() == [False, False, False, True]
    assert graph.test.tolist() == [False, True, True, False]


def test_options_and_the_cache(data_folder: Path, same_graph: Any) -> None:
    write_ogb(data_folder / "ogbn_arxiv")
    graph = Arxiv(largest_component=True, normalise=True).load()
    assert graph.ids.tolist() == [0, 1, 2]
    np.testing.assert_allclose(graph.x.sum(axis=1), [1, 1, 1], rtol=1e-6)
    same_graph(Arxiv(largest_component=True, normalise=True).load(), graph)


def test_products_have_their_own_split_and_classes(data_folder: Path) -> None:
    for part in ("train", "valid", "test"):
        text = ARXIV[f"split/time/{part}.csv.gz"]
        write_ogb(data_folder / "ogbn_products", **{f"split/sales_ranking/{part}.csv.gz": text})
    graph = Products().load()
    assert (graph.nodes, graph.classes, graph.features) == (4, 47, 3)
    assert graph.test.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("raw/edge.csv.gz", "0,1\n1,4\n", "its edges name nodes outside 0 to 3"),
        ("raw/edge.csv.gz", "0,1\n1,x\n", "could not parse `x`"),
        ("raw/edge.csv.gz", "0,1\n1\n", "row 2 has nothing in column 2"),
        ("raw/edge.csv.gz", "0\n1\n", "its edges are no pairs"),
        ("raw/node-feat.csv.gz", "1,2\n3,\n", "row 2 has nothing in column 2"),
        ("raw/node-label.csv.gz", "0\n1\n", "its labels are int64(2,) for 4 nodes"),
        ("raw/node-label.csv.gz", "", "empty CSV"),
        ("split/time/test.csv.gz", "7\n", "it names nodes outside 0 to 3"),
    ],
)
def test_damage_is_named(data_folder: Path, file: str, text: str, reason: str) -> None:
    write_ogb(data_folder / "ogbn_arxiv", **{file: text})
    with pytest.raises(AtollError) as problem:
        Arxiv().load()
    sentence = str(problem.value)
    assert sentence.startswith(f"'{data_folder / 'ogbn_arxiv' / file}' can't be read as a ")
    assert reason in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("file", ["raw/node-feat.csv.gz", "split/time/train.csv.gz"])
def test_half_a_file_is_named(data_folder: Path, file: str) -> None:
    write_ogb(data_folder / "ogbn_arxiv")
    path = data_folder / "ogbn_arxiv" / file
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(AtollError, match=f"{path.name}' can't be read as"):
        Arxiv().load()


def test_a_missing_file_is_named(data_folder: Path) -> None:
    write_ogb(data_folder / "ogbn_arxiv")
    (data_folder / "ogbn_arxiv/split/time/valid.csv.gz").unlink()
    with pytest.raises(AtollError, match=r"ogbn_arxiv/split/time/valid.csv.gz' is missing"):
        Arxiv().load()


def archive_of(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ARXIV:
            archive.write(folder / name, f"arxiv/{name}")
        archive.writestr("arxiv/mapping/README.md", "not needed")
    return packed.getvalue()


def test_the_archive_is_downloaded_and_unpacked(
    empty_home: Path, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ogb(tmp_path / "source")
    server.content["/arxiv.zip"] = archive_of(tmp_path / "source")
    monkeypatch.setattr(ogb, "_ARCHIVES", server.url)
    assert Arxiv().load().nodes == 4
    found = {str(path.relative_to(empty_home)) for path in empty_home.rglob("*.*")}
    assert found == {f"ogbn_arxiv/{name}" for name in ARXIV}


def test_a_broken_archive_is_named(
    empty_home: Path, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ogb(tmp_path / "source")
    server.content["/arxiv.zip"] = archive_of(tmp_path / "source")[:-50]
    monkeypatch.setattr(ogb, "_ARCHIVES", server.url)
    with pytest.raises(
        AtollError, match=r"arxiv.zip' can't be read as an OGB archive .* delete it"
    ):
        Arxiv().load()
    assert list(empty_home.rglob("*.csv.gz*")) == []
