"""People in tables of credit and bail, for studies of fairness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from atoll.data.base import datasets
from atoll.data.prepare import prepared
from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_npz
from atoll.graph import Features, Graph, dense


@dataclass(frozen=True, kw_only=True)
class FairnessGraph(PublishedDataset):
    """People linked to the most similar ones, for studies of fairness (Agarwal et al., 2021).

    The edges come from the features, so an MLP does as well as a graph network here.
    ``standardise`` gives each feature mean zero and variance one (amounts and flags differ by four
    orders of magnitude); ``largest_component`` keeps only the largest connected component.
    """

    downloadable: ClassVar[bool] = False
    largest_component: bool = False
    standardise: bool = True

    def files(self) -> tuple[str, ...]:
        return (f"raw/{self.folder.lower()}.npz",)

    def read(self, files: Sequence[Path]) -> Graph:
        graph = prepared(read_npz(files[0], self.registered_name), component=self.largest_component)
        return replace(graph, x=standardised(graph.x) if self.standardise else dense(graph.x))


@datasets.register("credit-default")
@dataclass(frozen=True, kw_only=True)
class CreditDefault(FairnessGraph):
    """30,000 holders of credit cards, 137,377 similar pairs, 13 features, default or not."""

    folder: ClassVar[str] = "CreditDefault"


@datasets.register("bail")
@dataclass(frozen=True, kw_only=True)
class Bail(FairnessGraph):
    """18,876 people released on bail, 311,870 similar pairs, 18 features, reoffended or not."""

    folder: ClassVar[str] = "Bail"


@datasets.register("german-credit")
@dataclass(frozen=True, kw_only=True)
class GermanCredit(FairnessGraph):
    """1,000 customers of a German bank, 21,742 similar pairs, 27 features, good or bad credit."""

    folder: ClassVar[str] = "GermanCredit"


def standardised(x: Features) -> np.ndarray:
    """Each column minus its mean, divided by its standard deviation; constant columns are 0."""
    values = dense(x).astype(np.float64)
    deviation = values.std(axis=0)
    varies = values.max(axis=0) > values.min(axis=0)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    scaled: np.ndarray = ((values - values.mean(axis=0)) * scale).astype(np.float32)
    return scaled
