"""Small graphs in the layouts that others publish, and a server that hands them out."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.graph import Graph

# Taken at the start: tests change the environment.
_REAL_DATA = os.environ.get("ATOLL_DATA")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or fills the user's cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ATOLL_CACHE", str(folder))
    return folder


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``ATOLL_DATA``."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ATOLL_DATA", str(folder))
    return folder


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No ``ATOLL_DATA``: downloads go to an empty home."""
    monkeypatch.delenv("ATOLL_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home" / ".cache" / "atoll" / "data"


@pytest.fixture
def real_data() -> Path:
    if not _REAL_DATA:
        pytest.skip("set ATOLL_DATA to the folder of real datasets")
    return Path(_REAL_DATA)


@pytest.fixture
def torch_geometric() -> None:
    """Imports it past the warnings of its own that it raises on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch_geometric.datasets  # noqa: F401


@pytest.fixture
def write_npz() -> Callable[..., Path]:
    """Writes a triangle 0-1-2 (2 points to 0 twice) and a pair 3-4, with word counts."""

    def write(path: Path, **changed: object) -> Path:
        adjacency = sparse.csr_array(
            (np.ones(5), ([0, 1, 2, 0, 3], [1, 2, 0, 2, 4])), shape=(5, 5), dtype=np.float32
        )
        words = sparse.csr_array(
            np.array([[3, 1, 0], [0, 2, 0], [0, 0, 4], [1, 0, 1], [0, 5, 5]], dtype=np.float32)
        )
        arrays: dict[str, object] = {"labels": np.array([0, 1, 1, 0, 1])}
        for prefix, matrix in (("adj", adjacency), ("attr", words)):
            for part in ("data", "indices", "indptr", "shape"):
                arrays[f"{prefix}_{part}"] = getattr(matrix, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {name: a for name, a in (arrays | changed).items() if a is not None}
        np.savez(path, **kept)  # type: ignore[arg-type]
        return path

    return write


@pytest.fixture
def same_graph() -> Callable[[Graph, Graph], None]:
    """Asserts that two graphs are equal in every array, type and name."""

    def check(a: Graph, b: Graph) -> None:
        assert (a.name, a.classes) == (b.name, b.classes)
        assert sparse.issparse(a.x) == sparse.issparse(b.x)
        if sparse.issparse(a.x):
            assert a.x.shape == b.x.shape
            for part in ("data", "indices", "indptr"):
                same_array(getattr(a.x, part), getattr(b.x, part))
        else:
            same_array(a.x, b.x)
        for part in ("edges", "y", "train", "val", "test", "ids"):
            same_array(getattr(a, part), getattr(b, part))
        assert [h.name for h in a.holdings] == [h.name for h in b.holdings]
        for mine, other in zip(a.holdings, b.holdings, strict=True):
            same_array(mine.nodes, other.nodes)
            assert (mine.edges is None) == (other.edges is None)
            if mine.edges is not None:
                same_array(mine.edges, other.edges)

    def same_array(a: np.ndarray, b: np.ndarray) -> None:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)

    return check


class Server:
    """Serves bytes by path; ``promised`` lets it announce more than it sends."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.promised: dict[str, int] = {}
        self.requested: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requested.append(self.path)
                if self.path not in server.content:
                    self.send_error(404)
                    return
                body = server.content[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(server.promised.get(self.path, len(body))))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    thread = threading.Thread(target=served.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.http.shutdown()
    thread.join()
    served.http.server_close()
