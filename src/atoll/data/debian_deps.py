"""Packages of Debian 12 and what they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from atoll.data.base import datasets
from atoll.data.prepare import prepared
from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_arrays, read_npz
from atoll.data.reading import checked_labels, readable
from atoll.graph import Graph, Holding, nodes_of


@datasets.register("debian-deps")
@dataclass(frozen=True, kw_only=True)
class DebianDeps(PublishedDataset):
    """63,081 Debian packages, 292,223 dependencies, 2,000 words, 50 sections, 2,084 maintainers.

    Made from the package list of Debian 12 (main, amd64). Words are those of the descriptions, ids
    are the packages' names, and each maintainer is a natural client: the partition ``natural``
    with ``clients=k`` takes the k who maintain most. ``largest_component`` keeps only the largest
    connected component and ``normalise`` divides each package's words by their number.
    """

    folder: ClassVar[str] = "DebianDeps"
    downloadable: ClassVar[bool] = False
    largest_component: bool = False
    normalise: bool = False

    def files(self) -> tuple[str, ...]:
        return ("raw/debian_deps.npz",)

    def read(self, files: Sequence[Path]) -> Graph:
        graph = read_npz(files[0], self.registered_name)
        with readable(files[0], "a graph with maintainers"):
            packages, owner, names = read_arrays(files[0], "node_names", "silo", "silo_names")
            owner = checked_labels(owner, graph.nodes)
            holdings = by_maintainer(owner, [str(name) for name in names])
            graph = replace(graph, ids=packages, holdings=holdings)
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


def by_maintainer(owner: np.ndarray, names: Sequence[str]) -> tuple[Holding, ...]:
    """A holding for each owner number ``[n]``; the file names only the largest owners."""
    numbers, place = np.unique(owner, return_inverse=True)
    return tuple(
        Holding(names[number] if number < len(names) else f"maintainer {number}", nodes)
        for number, nodes in zip(numbers, nodes_of(place, len(numbers)), strict=True)
    )
