"""Numpy's ``SeedSequence`` for many streams at once: the same seeds, one array operation each.

Making a generator by itself takes longer than what a client draws from it, and ten thousand clients
need one each at every step. The algorithm is numpy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from atoll.kernels.seed_sequence import (
    INIT_A,
    INIT_B,
    MIX_L,
    MIX_R,
    MULT_A,
    MULT_B,
    POOL,
    SEED,
    SHIFT,
)

_MIX_L, _MIX_R, _SHIFT = np.uint32(MIX_L), np.uint32(MIX_R), np.uint32(SHIFT)
# Below so many, seeding one by one is quicker.
_MANY = 16


def generators(entropy: np.ndarray) -> list[np.random.Generator]:
    """``Generator(SFC64(SeedSequence(row)))`` of every row ``[n, 4]`` of 32-bit words."""
    if len(entropy) < _MANY:
        alone = map(np.random.SeedSequence, entropy.tolist())
        return [np.random.Generator(np.random.SFC64(seed)) for seed in alone]
    ready, found = _Ready(), []
    for ready.words in seeds(entropy):
        found.append(np.random.Generator(np.random.SFC64(ready)))  # type: ignore[arg-type]
    return found


def generator_at(state: np.ndarray) -> np.random.Generator:
    """A generator that goes on from where a stream is ``[4]``."""
    source = np.random.SFC64(0)
    source.state = {
        "bit_generator": "SFC64",
        "state": {"state": state},
        "has_uint32": 0,
        "uinteger": 0,
    }
    return np.random.Generator(source)


class _Ready(ISeedSequence):
    """Seeds that are there already."""

    words: np.ndarray

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return self.words


def seeds(entropy: np.ndarray) -> np.ndarray:
    """``SeedSequence(row).generate_state(3, uint64)`` of every row ``[n, 3]``."""
    pool, constant = _pooled(entropy), INIT_B
    seeds = np.empty((len(entropy), SEED), dtype="<u4")
    for i in range(SEED):
        seeds[:, i], constant = _hashed(pool[i % POOL], constant, MULT_B)
    return seeds.view("<u8")


def _pooled(entropy: np.ndarray) -> list[np.ndarray]:
    constant, pool = INIT_A, []
    for i in range(POOL):
        hashed, constant = _hashed(entropy[:, i], constant, MULT_A)
        pool.append(hashed)
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                hashed, constant = _hashed(pool[source], constant, MULT_A)
                mixed: np.ndarray = pool[target] * _MIX_L - hashed * _MIX_R
                pool[target] = mixed ^ (mixed >> _SHIFT)
    return pool


def _hashed(value: np.ndarray, constant: int, factor: int) -> tuple[np.ndarray, int]:
    """A hash of each entry, and the constant of the next one."""
    value = value ^ np.uint32(constant)
    constant = constant * factor & 0xFFFFFFFF
    value = value * np.uint32(constant)
    return value ^ (value >> _SHIFT), constant
