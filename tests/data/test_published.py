from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_npz
from atoll.errors import AtollError
from atoll.graph import Graph

Write = Callable[..., Path]


@dataclass(frozen=True, kw_only=True)
class Small(PublishedDataset):
    registered_name: ClassVar[str] = "small"
    folder: ClassVar[str] = "Small"
    url: ClassVar[str] = ""
    reads: ClassVar[list[str]] = []
    shout: bool = False

    def files(self) -> tuple[str, ...]:
        return ("raw/small.npz",)

    def address(self, file: str) -> str:
        return f"{self.url}/{file}"

    def read(self, files: Sequence[Path]) -> Graph:
        self.reads.append(files[0].name)
        return read_npz(files[0], "SMALL" if self.shout else "small")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Small, "reads", [])


def test_files_are_read_once(data_folder: Path, write_npz: Write) -> None:
    write_npz(data_folder / "Small/raw/small.npz")
    assert [Small().load().name, Small().load().name] == ["small", "small"]
    assert Small(shout=True).load().name == "SMALL"
    assert Small.reads == ["small.npz"] * 2
    assert [path.name for path in data_folder.rglob("*.npz")] == ["small.npz"]


def test_a_missing_file_is_named(data_folder: Path) -> None:
    with pytest.raises(AtollError) as problem:
        Small().load()
    assert str(problem.value) == (
        f"small: '{data_folder}/Small/raw/small.npz' is missing; put it there, or unset ATOLL_DATA "
        f"to have it downloaded."
    )


def test_what_lies_nowhere_is_not_promised(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Small, "downloadable", False)
    with pytest.raises(AtollError) as given:
        Small().load()
    assert str(given.value) == (
        f"small: '{data_folder}/Small/raw/small.npz' is missing; put it there."
    )
    monkeypatch.delenv("ATOLL_DATA")
    monkeypatch.setenv("HOME", str(data_folder))
    with pytest.raises(AtollError) as not_given:
        Small().load()
    assert str(not_given.value) == (
        "small: 'Small/raw/small.npz' is missing; put it into a folder and name that in ATOLL_DATA."
    )


def test_missing_files_are_downloaded_once(
    empty_home: Path,
    server: Any,
    tmp_path: Path,
    write_npz: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.content["/raw/small.npz"] = write_npz(tmp_path / "source.npz").read_bytes()
    monkeypatch.setattr(Small, "url", server.url)
    for _ in range(2):
        assert Small().load().nodes == 5
    assert server.requested == ["/raw/small.npz"]
    assert (empty_home / "Small/raw/small.npz").is_file()


def test_a_damaged_file_is_named(data_folder: Path, own_cache: Path, write_npz: Write) -> None:
    path = write_npz(data_folder / "Small/raw/small.npz")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(AtollError, match=r"small.npz' can't be read as .* fetch it anew"):
        Small().load()
    assert not own_cache.exists()


def test_an_unknown_source_is_named(data_folder: Path, write_npz: Write) -> None:
    write_npz(data_folder / "Small/raw/small.npz")
    with pytest.raises(AtollError, match="unknown source of small 'pypi': there is: auto"):
        Small().obtain("pypi")
