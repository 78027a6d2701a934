from pathlib import Path
from typing import Any

import pytest

from atoll.data.amazon import Amazon
from atoll.data.fetch import fetch, fetchable
from atoll.errors import AtollError


def test_fetch_downloads_reads_and_caches(
    empty_home: Path,
    own_cache: Path,
    server: Any,
    tmp_path: Path,
    write_npz: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = write_npz(tmp_path / "source.npz")
    server.content["/raw/amazon_electronics_photo.npz"] = source.read_bytes()
    monkeypatch.setattr(Amazon, "address", lambda _, file: f"{server.url}/{file}")
    home = fetch("amazon-photo")
    assert home == empty_home / "Photo"
    assert (home / "raw/amazon_electronics_photo.npz").read_bytes() == source.read_bytes()
    assert [entry.name.rpartition("-")[0] for entry in own_cache.iterdir()] == ["amazon-photo"]
    fetch("amazon-photo")
    assert len(server.requested) == 1


def test_what_is_there_is_only_read(data_folder: Path, own_cache: Path, write_npz: Any) -> None:
    file = write_npz(data_folder / "Photo/raw/amazon_electronics_photo.npz")
    assert fetch("amazon-photo") == data_folder / "Photo"
    assert list(data_folder.rglob("*.npz")) == [file]
    assert len(list(own_cache.iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        ("digits", "auto", "'digits' has no files to fetch"),
        ("photos", "auto", "unknown dataset 'photos': did you mean 'photo'?"),
        ("pubmed", "pypi", "unknown source of pubmed 'pypi': there is: auto, planetoid."),
        ("cora", "pip", "unknown source of cora 'pip': did you mean 'pypi'?"),
        ("wiki-cs", "auto", "wiki-cs: '"),
    ],
)
@pytest.mark.usefixtures("data_folder")
def test_what_can_not_be_fetched(name: str, source: str, sentence: str) -> None:
    with pytest.raises(AtollError) as problem:
        fetch(name, source)
    assert str(problem.value).startswith(sentence)


def test_the_listing(data_folder: Path, write_npz: Any) -> None:
    write_npz(data_folder / "Photo/raw/amazon_electronics_photo.npz")
    entries = {entry.name: entry for entry in fetchable()}
    assert "digits" not in entries
    assert entries["amazon-photo"].missing == ()
    assert entries["cora"].sources == ("auto", "planetoid", "pypi")
    assert len(entries["cora"].missing) == 7
    assert entries["wiki-cs"].home == data_folder / "WikiCS"
    assert entries["wiki-cs"].missing == ("raw/data.json",)
    assert entries["wiki-cs"].downloadable
    assert not entries["bail"].downloadable
    assert entries["wiki-cs"].summary.startswith("11,701 Wikipedia articles")
