"""Some of each client's small graphs as inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from atoll.cohort.inputs import Inputs
from atoll.cohort.packed import Packed
from atoll.graph import Graph
from atoll.ops.features import features_times, pack_features
from atoll.ops.propagation import inputs_name
from atoll.ops.sparse import Sparse


class Picked(Inputs):
    """Whole small graphs of each client, cut out of what all of them are packed into.

    No edge leads out of a small graph, so that operators and propagated features are the whole's at
    these rows: nothing is made anew from edges, which a step in mini-batches would notice.

    ``nodes_K`` are the clients' own node numbers, ``graphs`` what follows from these.
    """

    def __init__(
        self, whole: Packed, nodes_K: Sequence[np.ndarray], graphs: Sequence[Graph]
    ) -> None:
        super().__init__([len(nodes) for nodes in nodes_K], whole.dtype)
        self._whole, self._nodes_K, self._graphs = whole, nodes_K, graphs
        self._rows = whole.rows_of(nodes_K)

    @property
    def graphs(self) -> Sequence[Graph]:
        return self._graphs

    def linear(self, weight_K: Tensor, propagated: str = "", hops: int = 1) -> Tensor:
        if propagated and self._whole.work_of_two_products(propagated, hops) < np.inf:
            return self.operator(propagated) @ self.linear(weight_K)
        x = self.cached(inputs_name(propagated, hops), lambda: self._features(propagated, hops))
        return features_times(x, weight_K, self.sizes)

    def _features(self, propagated: str, hops: int) -> Sparse | Tensor:
        x_K = self._whole.propagated_K(propagated, hops)
        return pack_features([x[n] for x, n in zip(x_K, self._nodes_K, strict=True)], self.dtype)

    def operator(self, name: str) -> Sparse:
        rows = self._rows.cpu().numpy()
        return self.cached(name, lambda: self._whole.operator(name).block(rows))

    def operator_at(self, name: str, rows: Tensor) -> Sparse:
        return self.operator(name).at(rows)

    def by_graph(self, key: str, dtype: torch.dtype, make: Callable[[Graph], np.ndarray]) -> Tensor:
        return self.cached(
            f"{key} as {dtype}", lambda: self._whole.by_graph(key, dtype, make)[self._rows]
        )
