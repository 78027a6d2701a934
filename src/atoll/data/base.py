"""What a dataset is, and where its files lie."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from atoll.data.stress import refuse_taken_names
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import check_options
from atoll.registry import Registry

datasets: Registry[Dataset] = Registry("dataset", "atoll.data", lambda: Dataset, "atoll.data")


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """Loads one graph. Its fields are its options."""

    registered_name: ClassVar[str]

    def __post_init__(self) -> None:
        check_options("data", self)
        refuse_taken_names(self)

    @abstractmethod
    def load(self) -> Graph:
        """The whole graph, before splits and partition."""

    def fitted(self, graph: Graph) -> Graph:
        """The loaded graph, once it has a split: scales and the like fitted to training nodes."""
        return graph

    def preprocessing(self, train: np.ndarray | None = None) -> dict[str, Any] | None:
        """What was fitted to the training nodes to make features, for JSON; None if nothing was."""
        return None


def data_root() -> tuple[Path, bool]:
    """Where datasets lie, and whether missing files may be downloaded into it.

    ``ATOLL_DATA`` names a folder that is only read; otherwise a cache in the user's home is
    filled by download.
    """
    given = os.environ.get("ATOLL_DATA")
    if not given:
        return Path.home() / ".cache" / "atoll" / "data", True
    if not Path(given).is_dir():
        raise AtollError(
            f"ATOLL_DATA names '{given}', which is not a folder; set it to one or unset it."
        )
    return Path(given), False
