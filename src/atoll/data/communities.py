"""A large random community graph, made in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from atoll.data.base import Dataset, datasets
from atoll.errors import AtollError
from atoll.graph import Graph, Holding, make_graph
from atoll.options import option
from atoll.rng import stream

# A second array as large as all features would be the largest thing in memory.
_ROWS_AT_ONCE = 65_536


@datasets.register("communities")
@dataclass(frozen=True, kw_only=True)
class Communities(Dataset):
    """A random graph of communities, of any size; by default as large as ogbn-arxiv.

    ``nodes * degree / 2`` times a node is drawn, and a partner: with probability ``inside`` from
    the same community, else from anywhere. Pairs drawn twice and loops are dropped, so the mean
    degree comes out a little lower. Communities are equal runs of node numbers and natural
    holdings. Community c has class ``c mod classes``; a node's features are normal noise of
    variance 1 around its class's centre, itself drawn with standard deviation ``signal``.

    Meant for measuring time and memory: 2.4 million nodes with 60 million directed edges take
    some ten seconds.
    """

    nodes: int = option(169_343, at_least=1)
    degree: float = option(13.7, above=0)
    communities: int = option(100, at_least=1)
    features: int = option(128, at_least=1)
    classes: int = option(40, at_least=1)
    inside: float = option(0.8, at_least=0, at_most=1)
    signal: float = option(0.5, at_least=0)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classes <= self.communities <= self.nodes:
            raise AtollError(
                f"data.communities is {self.communities}; it must be from {self.classes} (one for "
                f"each of data.classes) to {self.nodes} (data.nodes)."
            )
        if self.degree >= self.nodes:
            raise AtollError(
                f"data.degree is {self.degree:g}; it must be below data.nodes ({self.nodes})."
            )

    def load(self) -> Graph:
        rng = stream(self.seed, self.registered_name)
        # Community c is the run of nodes from start[c] to start[c + 1].
        start = -(-np.arange(self.communities + 1) * self.nodes // self.communities)
        community = np.repeat(np.arange(self.communities), np.diff(start))
        label = community % self.classes
        graph = make_graph(
            self._features(label, rng),
            self._pairs(community, start, rng),
            label,
            classes=self.classes,
            name=self.registered_name,
        )
        runs = enumerate(pairwise(start.tolist()))
        holdings = (Holding(f"community {c}", np.arange(*run)) for c, run in runs)
        return replace(graph, holdings=tuple(holdings))

    def _pairs(
        self, community: np.ndarray, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        count = round(self.nodes * self.degree / 2)
        pairs = np.empty((2, count), dtype=np.int32 if self.nodes < 2**31 else np.int64)
        pairs[0] = rng.integers(self.nodes, size=count, dtype=pairs.dtype)
        pairs[1] = rng.integers(self.nodes, size=count, dtype=pairs.dtype)
        inside = np.flatnonzero(rng.random(count, dtype=np.float32) < self.inside)
        home = community[pairs[0, inside]]
        place = rng.random(len(inside)) * np.diff(start)[home]
        pairs[1, inside] = start[home] + place.astype(np.int64)
        return pairs

    def _features(self, label: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        centre = rng.normal(size=(self.classes, self.features)) * self.signal
        x = rng.standard_normal((self.nodes, self.features), dtype=np.float32)
        centre = centre.astype(np.float32)
        for first in range(0, self.nodes, _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            x[rows] += centre[label[rows]]
        return x
