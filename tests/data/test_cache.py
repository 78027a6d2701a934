import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.data.cache import cache_folder, cached
from atoll.graph import Graph, Holding, make_graph

Same = Callable[[Graph, Graph], None]


def path_graph(**changes: object) -> Graph:
    """0 - 1 - 2, with a split, string ids and two overlapping holdings."""
    graph = make_graph(
        sparse.csr_array(np.array([[1, 0], [0, 2], [0, 0]], dtype=np.float32)),
        np.array([[0, 1], [1, 2]]),
        np.array([0, 1, -1]),
        ids=np.array(["ann", "böb", "cy"]),
        name="path",
    )
    whole = Holding("all", np.array([0, 1, 2]))
    part = Holding("some", np.array([0, 1]), edges=np.array([0, 1]))
    return replace(
        graph,
        train=np.array([True, False, False]),
        test=np.array([False, True, False]),
        holdings=(whole, part),
        **changes,  # type: ignore[arg-type]
    )


class Reader:
    """Counts how often the raw files are read."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.times = graph, 0

    def __call__(self) -> Graph:
        self.times += 1
        return self.graph


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    file = tmp_path / "raw.bin"
    file.write_bytes(b"raw")
    return file


@pytest.mark.parametrize(
    "graph",
    [path_graph(), path_graph(x=np.eye(3, dtype=np.float32)), path_graph(ids=np.array([7, 8, 9]))],
    ids=["sparse", "dense", "numbered"],
)
def test_a_graph_comes_back_as_it_was(graph: Graph, raw: Path, same_graph: Same) -> None:
    read = Reader(graph)
    same_graph(cached("path", {}, [raw], read), graph)
    same_graph(cached("path", {}, [raw], read), graph)
    assert read.times == 1


def test_a_graph_without_holdings_and_edges(raw: Path, same_graph: Same) -> None:
    lonely = make_graph(np.ones((2, 1), np.float32), np.zeros((2, 0), int), np.array([0, 0]))
    read = Reader(lonely)
    for _ in range(2):
        same_graph(cached("lonely", {}, [raw], read), lonely)
    assert read.times == 1


def test_options_have_entries_of_their_own(raw: Path) -> None:
    read = Reader(path_graph())
    for options in ({"normalise": True}, {"normalise": False}, {"normalise": True}):
        cached("path", options, [raw], read)
    assert read.times == 2


@pytest.mark.parametrize("change", ["size", "time"])
def test_new_raw_files_replace_the_entry(raw: Path, own_cache: Path, change: str) -> None:
    read = Reader(path_graph())
    cached("path", {}, [raw], read)
    if change == "size":
        was = raw.stat().st_mtime_ns
        raw.write_bytes(b"longer")
        os.utime(raw, ns=(was, was))
    else:
        os.utime(raw, ns=(1, 1))
    cached("path", {}, [raw], read)
    assert read.times == 2
    assert len(list(own_cache.iterdir())) == 1


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.95])
def test_a_cut_entry_is_made_anew(
    raw: Path, own_cache: Path, keep: float, same_graph: Same
) -> None:
    read = Reader(path_graph())
    cached("path", {}, [raw], read)
    (entry,) = own_cache.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: int(keep * len(whole) if keep < 1 else keep)])
    same_graph(cached("path", {}, [raw], read), read.graph)
    assert read.times == 2
    assert entry.read_bytes() == whole


def test_no_flipped_byte_goes_unnoticed(raw: Path, own_cache: Path, same_graph: Same) -> None:
    read = Reader(path_graph())
    cached("path", {}, [raw], read)
    (entry,) = own_cache.iterdir()
    whole = entry.read_bytes()
    for at in range(0, len(whole), 37):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        same_graph(cached("path", {}, [raw], read), read.graph)


def test_a_damaged_shape_is_noticed(raw: Path, own_cache: Path, same_graph: Same) -> None:
    read = Reader(path_graph())
    cached("path", {}, [raw], read)
    (entry,) = own_cache.iterdir()
    whole = entry.read_bytes()
    assert whole.count(b"(2, 4)") == 1
    entry.write_bytes(whole.replace(b"(2, 4)", b"(2, 3)"))
    same_graph(cached("path", {}, [raw], read), read.graph)
    assert read.times == 2


def test_a_pickle_in_the_cache_is_not_run(raw: Path, own_cache: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(own_cache / "exploded"),))

    read = Reader(path_graph())
    cached("path", {}, [raw], read)
    (entry,) = own_cache.iterdir()
    np.savez(entry, header=np.array([Bomb()], dtype=object))
    cached("path", {}, [raw], read)
    assert read.times == 2
    assert not (own_cache / "exploded").exists()


def test_a_folder_that_can_not_be_written_is_no_error(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ATOLL_CACHE", str(tmp_path / "file" / "cache"))
    read = Reader(path_graph())
    for _ in range(2):
        assert cached("path", {}, [raw], read).nodes == 3
    assert read.times == 2


def test_nothing_is_kept_inside_the_data_folder(
    raw: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATOLL_CACHE", str(data_folder / "deep" / "cache"))
    assert cache_folder() is None
    cached("path", {}, [raw], Reader(path_graph()))
    assert list(data_folder.iterdir()) == []


def test_the_default_is_in_the_home(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATOLL_CACHE")
    assert cache_folder() == empty_home.parent / "graphs"
