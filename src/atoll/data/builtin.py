"""Two real datasets that come with scikit-learn: nothing has to be downloaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atoll.data.base import Dataset, datasets
from atoll.graph import Graph, make_graph
from atoll.options import option


@datasets.register("digits")
@dataclass(frozen=True, kw_only=True)
class Digits(Dataset):
    """1,797 handwritten digits, joined to their nearest neighbours; 10 classes, built in.

    Features are the 64 pixels scaled to [0, 1]. An edge joins two digits if either is among the
    other's ``neighbours`` nearest by pixels.
    """

    neighbours: int = option(8, at_least=1, below=1797)

    def load(self) -> Graph:
        from sklearn.datasets import load_digits

        pixels, digit = load_digits(return_X_y=True)
        return nearest_neighbour_graph(pixels / 16.0, digit, self.neighbours, "digits")


@datasets.register("patients")
@dataclass(frozen=True, kw_only=True)
class Patients(Dataset):
    """569 breast-cancer patients, joined to the most similar; benign or malignant, built in.

    Features are 30 measurements of cell nuclei (Wisconsin diagnostic data), standardised. An edge
    joins two patients if either is among the other's ``neighbours`` most similar.
    """

    neighbours: int = option(5, at_least=1, below=569)

    def load(self) -> Graph:
        from sklearn.datasets import load_breast_cancer

        measured, benign = load_breast_cancer(return_X_y=True)
        scaled = (measured - measured.mean(axis=0)) / measured.std(axis=0)
        return nearest_neighbour_graph(scaled, benign, self.neighbours, "patients")


def nearest_neighbour_graph(x: np.ndarray, y: np.ndarray, neighbours: int, name: str) -> Graph:
    """Each node joined to its nearest by Euclidean distance, of equally near ones to the first.

    scikit-learn's own breaks ties by the number of threads, and pixels often tie.
    """
    from scipy.spatial.distance import cdist

    distance = cdist(x, x, "sqeuclidean")
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :neighbours]
    edges = np.stack([np.repeat(np.arange(len(x)), neighbours), nearest.ravel()])
    return make_graph(x.astype(np.float32), edges, y, name=name)
