"""Inputs whose first propagation knows the neighbours at other clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.cohort.packed import Factors, Make, Packed, T
from atoll.errors import AtollError
from atoll.graph import Features, Graph
from atoll.leaves import Ragged
from atoll.methods.fed_gcn.neighbours import completed_features, operator


class Completed(Packed):
    """K graphs with anchors' complete degrees, and what others added to their neighbour sums.

    ``P X`` is the sum over all neighbours, wherever they are; what a model propagates later goes
    along the client's own edges.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        degree_K: Sequence[np.ndarray],
        further_K: Sequence[np.ndarray],
        dtype: torch.dtype,
    ) -> None:
        super().__init__(graphs, dtype)
        self.shared = False  # what others added is each client's own
        self._told = list(zip(graphs, degree_K, further_K, strict=True))

    def operators(self, name: str) -> list[sparse.csr_array]:
        if name != "gcn":
            raise AtollError(
                f"fed-gcn completes sums of operator 'gcn', not of '{name}'; set model.name=gcn."
            )

        def build() -> list[sparse.csr_array]:
            return [operator(graph, degree) for graph, degree, _ in self._told]

        return self.cached("operators", build)

    def propagated_K(self, propagated: str, hops: int) -> list[Features]:
        if not propagated:
            return [graph.x for graph, _, _ in self._told]
        operators = self.operators(propagated)
        x_K = [completed_features(*told) for told in self._told]
        for _ in range(hops - 1):
            x_K = [p @ x for p, x in zip(operators, x_K, strict=True)]
        return x_K

    def made_of_propagated(self, propagated: str, hops: int, make: Make[T]) -> list[T]:
        return [make(x, self.dtype) for x in self.propagated_K(propagated, hops)]

    def _entries(self, name: str) -> tuple[float, float]:
        return np.inf, np.inf  # the product is made: it is no longer that of these features

    def _two_factors(self, propagated: str, hops: int) -> Factors:
        raise TypeError("sums that others added to are no product with the client's features")

    def take(self, positions: Sequence[int]) -> Completed:
        graphs, degree_K, further_K = zip(*(self._told[p] for p in positions), strict=True)
        return Completed(graphs, degree_K, further_K, self.dtype)


def completed(cohort: Cohort, degree: Ragged, further: Ragged) -> Cohort:
    """The cohort whose first propagation is complete; the last one is kept."""
    if not len(degree.values):
        return cohort

    def build() -> Cohort:
        degree_K = [block.double().cpu().numpy() for block in degree.blocks()]
        further_K = [block.double().cpu().numpy() for block in further.blocks()]
        inputs = Completed(cohort.graphs, degree_K, further_K, cohort.dtype)
        return cohort.with_inputs(inputs)

    return cohort.latest("with complete sums of neighbours", (degree, further), build)
