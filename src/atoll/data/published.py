"""Datasets that others published as files: found or downloaded, read once, then cached."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from atoll.data.base import Dataset, data_root
from atoll.data.cache import cached
from atoll.data.download import download
from atoll.errors import AtollError, unknown
from atoll.graph import Graph


@dataclass(frozen=True, kw_only=True)
class PublishedDataset(Dataset):
    """A dataset made from raw files in ``<data root>/<folder>``.

    A subclass names its files and reads them; where they come from and how the graph is
    cached is decided here.
    """

    folder: ClassVar[str]
    sources: ClassVar[tuple[str, ...]] = ("auto",)
    downloadable: ClassVar[bool] = True

    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The raw files that are needed, relative to the dataset's folder."""

    @abstractmethod
    def read(self, files: Sequence[Path]) -> Graph:
        """The graph of the raw files, with the options applied."""

    def address(self, file: str) -> str:
        """Where a raw file can be downloaded."""
        raise NotImplementedError(f"{type(self).__name__} names no address for {file}")

    def load(self) -> Graph:
        return self.load_from(self.obtain())

    def load_from(self, files: Sequence[Path]) -> Graph:
        """The graph of these raw files, from the cache if it has been read before."""
        options = {f.name: getattr(self, f.name) for f in fields(self)}
        return cached(self.registered_name, options, files, lambda: self.read(files))

    def home(self) -> Path:
        return data_root()[0] / self.folder

    def missing(self) -> list[str]:
        """The raw files that are not there yet."""
        return [file for file in self.files() if not (self.home() / file).is_file()]

    def obtain(self, source: str = "auto") -> tuple[Path, ...]:
        """The raw files, downloaded if they are missing and may be."""
        if source not in self.sources:
            raise unknown(f"source of {self.registered_name}", source, self.sources)
        missing = self.missing()
        if missing:
            self._check_may_download(missing[0])
            self.download(missing)
        return tuple(self.home() / file for file in self.files())

    def _check_may_download(self, file: str) -> None:
        given = not data_root()[1]
        if self.downloadable and not given:
            return
        remedy = "put it there" if given else "put it into a folder and name that in ATOLL_DATA"
        if self.downloadable:
            remedy += ", or unset ATOLL_DATA to have it downloaded"
        path = self.home() / file if given else f"{self.folder}/{file}"
        raise AtollError(f"{self.registered_name}: '{path}' is missing; {remedy}.")

    def download(self, missing: Sequence[str]) -> None:
        """Fetch the missing raw files, each from its own address."""
        for file in missing:
            download(self.address(file), self.home() / file, self.registered_name)
