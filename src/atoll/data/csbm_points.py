"""Contextual stochastic block models where each node of the network holds many data points."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from atoll.data.base import datasets
from atoll.data.csbm import LARGER, MOST_NODES, Blocks, ContextualSBM, label_of, node_split
from atoll.graph import Graph, Holding, make_graph
from atoll.options import option
from atoll.rng import stream


@dataclass(frozen=True, kw_only=True)
class ContextualPoints(ContextualSBM):
    """A network of clients, each with ``points`` labelled feature vectors.

    A row of the graph is a data point, not a client: client i holds rows ``i * points`` to
    ``(i + 1) * points - 1`` as a natural :class:`~atoll.graph.Holding`, so the ``natural``
    partition gives each client its points. Points have no edges; a client's links to other
    clients are its holding's ``links``, and :func:`atoll.partition.network.client_network` turns
    them into a matrix in the order of the parties.

    ``x_ij = sqrt(mu/N) y_ij u + Z_ij / sqrt(p)`` for a point of label y_ij. GFL's appendix writes
    ``Z_ij / p``, but then any classifier is right on every point, where the paper reports 61 % for
    its FedMLP on ``csbm-sc``; an MLP trained like it reaches 61 % with the ``sqrt(p)`` of
    Deshpande et al. ``noise = "p"`` follows the appendix to the letter.
    """

    points: int = option(40, at_least=1)
    noise: Literal["sqrt-p", "p"] = "sqrt-p"

    def load(self) -> Graph:
        blocks = self.blocks()
        rng = stream(self.seed, self.network_seed, self.registered_name, "data")
        sign = self._signs(blocks, rng).reshape(-1)
        scale = self.features if self.noise == "p" else self.features**0.5
        x = rng.normal(size=(len(sign), self.features)) / scale
        x += (self.feature_signal / self.nodes) ** 0.5 * np.outer(sign, self.direction())
        graph = make_graph(
            x.astype(np.float32),
            np.empty((2, 0), dtype=np.int64),
            label_of(sign),
            classes=2,
            name=self.registered_name,
        )
        train, val, test = self._split(blocks)
        holdings = self._holdings(blocks)
        return replace(graph, train=train, val=val, test=test, holdings=holdings)

    def _holdings(self, blocks: Blocks) -> tuple[Holding, ...]:
        neighbours = blocks.adjacency.tolil().rows
        rows = np.arange(self.nodes * self.points).reshape(self.nodes, self.points)
        return tuple(
            Holding(f"client {i}", rows[i], links=tuple(f"client {j}" for j in neighbours[i]))
            for i in range(self.nodes)
        )

    @abstractmethod
    def _signs(self, blocks: Blocks, rng: np.random.Generator) -> np.ndarray:
        """The label of each point as -1 or 1 ``[N, points]``."""

    @abstractmethod
    def _split(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The masks of the points that train, validate and test ``[N * points]``."""


@datasets.register("csbm-snc")
@dataclass(frozen=True, kw_only=True)
class StochasticNodes(ContextualPoints):
    """GFL's 200 clients with 40 data points of one class each, in a network (cSBM).

    Stochastic node classification, Wu et al., 2022, Appendix A.2.1: d = 10, lambda = 2, mu = 1, N =
    200, p = 100; all points of a client carry the client's label. The clients are split 10/10/80 %
    with all their points; the training clients are balanced and connected among themselves.
    """

    degree: float = option(10.0, at_least=0)

    def _signs(self, blocks: Blocks, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(blocks.sign[:, None], self.points, axis=1)

    def _split(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        masks = node_split(blocks, self.network_seed, self.registered_name)
        train, val, test = (np.repeat(mask, self.points) for mask in masks)
        return train, val, test


@datasets.register("csbm-sc")
@dataclass(frozen=True, kw_only=True)
class SupervisedClients(ContextualPoints):
    """GFL's 50 clients with 120 data points of both classes each, in a network (cSBM).

    Supervised classification, Wu et al., 2022, Appendix A.2.1: d = 5, lambda = 2.2, mu = 0.1, N =
    50, p = 100, redrawn until the network is connected. A client of sign 1 draws labels that are 1
    with probability 0.7, one of sign -1 with 0.3. Every client trains on its first 10 points,
    validates on the next 10 and tests on the other 100 (the shares scale with ``points``).

    Figure 2's experiment on connectivity is ``nodes = 40``, ``feature_signal = 1``,
    ``community_signal = 2`` and ``degree`` 25, 15, 10 and 5.
    """

    nodes: int = option(50, at_least=2, at_most=MOST_NODES, why=LARGER)
    degree: float = option(5.0, at_least=0)
    community_signal: float = 2.2
    feature_signal: float = option(0.1, at_least=0)
    connected: bool = True
    points: int = option(120, at_least=3, why="a client trains, validates and tests")

    def _signs(self, blocks: Blocks, rng: np.random.Generator) -> np.ndarray:
        chance = np.where(blocks.sign > 0, 0.7, 0.3)[:, None]
        return np.where(rng.random((self.nodes, self.points)) < chance, 1, -1)

    def _split(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        each = max(1, round(self.points / 12))
        point = np.tile(np.arange(self.points), self.nodes)
        return point < each, (point >= each) & (point < 2 * each), point >= 2 * each
