"""Gaussian noise: keyed by the seed in a simulation, from the operating system at a real site."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from atoll.device import of_numpy
from atoll.rng import CohortRng, stream


class Coins(ABC):
    """Where noise comes from."""

    @abstractmethod
    def normal(self, rng: CohortRng, i: int, name: str, size: int) -> np.ndarray:
        """Standard normal numbers ``[size]`` for the client at position ``i`` of a step."""

    def blocks(
        self, rng: CohortRng, name: str, shapes: Sequence[torch.Size], dtype: torch.dtype
    ) -> list[Tensor]:
        """One block of numbers for each client of a step."""
        made = (self.normal(rng, i, name, shape.numel()) for i, shape in enumerate(shapes))
        pairs = zip(made, shapes, strict=True)
        return [of_numpy(numbers).to(dtype).view(shape) for numbers, shape in pairs]


class KeyedCoins(Coins):
    """Repeatable, for simulations; whoever knows the seed can take such noise away again."""

    def normal(self, rng: CohortRng, i: int, name: str, size: int) -> np.ndarray:
        own = stream(rng.seed, rng.clients[i], rng.round, rng.step, "noise", name)
        return own.standard_normal(size)


class SystemCoins(Coins):
    """From the operating system's cryptographic generator: nobody can repeat it.

    Each number is the sum of four normal ones, halved. A single one, made from 53 random bits by
    the inverse distribution function, takes values with gaps between them, by which a sum with a
    known number can be told apart (Mironov, 2012); of four, the gaps are too many to search
    (Holohan and Braghin, 2021).
    """

    def normal(self, rng: CohortRng, i: int, name: str, size: int) -> np.ndarray:
        total = np.zeros(size)
        for _ in range(4):
            bits = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)
            total += ndtri((bits.astype(np.float64) + 0.5) * 2.0**-53)
        return total / 2
