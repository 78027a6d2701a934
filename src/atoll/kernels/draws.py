"""Raw random words of many streams: numpy's SFC64, the same numbers from the same seeds."""

from __future__ import annotations

import numba
import numpy as np

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

_WARM_UP = 12
_LOW = 0xFFFFFFFF


@numba.njit(nogil=True, cache=True)
def _hashed(value, constant, factor):
    """As :func:`atoll.rng.seeding._hashed`, of one number."""
    value ^= constant
    constant = constant * np.uint64(factor) & np.uint64(_LOW)
    value = value * constant & np.uint64(_LOW)
    return value ^ (value >> np.uint64(SHIFT)), constant


@numba.njit(nogil=True, cache=True)
def seeds(entropy):
    """As :func:`atoll.rng.seeding.seeds`: what is drawn from ``[n, 4]``, ``[n, 3]``."""
    words = np.empty((len(entropy), SEED // 2), dtype=np.uint64)
    pool = np.empty(POOL, dtype=np.uint64)
    for k in range(len(entropy)):
        constant = np.uint64(INIT_A)
        for i in range(POOL):
            pool[i], constant = _hashed(np.uint64(entropy[k, i]), constant, MULT_A)
        for source in range(POOL):
            for target in range(POOL):
                if source != target:
                    hashed, constant = _hashed(pool[source], constant, MULT_A)
                    mixed = pool[target] * np.uint64(MIX_L) - hashed * np.uint64(MIX_R)
                    mixed &= np.uint64(_LOW)
                    pool[target] = mixed ^ (mixed >> np.uint64(SHIFT))
        constant = np.uint64(INIT_B)
        for i in range(0, SEED, 2):
            low, constant = _hashed(pool[i % POOL], constant, MULT_B)
            high, constant = _hashed(pool[(i + 1) % POOL], constant, MULT_B)
            words[k, i // 2] = low | (high << np.uint64(32))
    return words


@numba.njit(nogil=True, cache=True)
def _next(state):
    drawn = state[0] + state[1] + state[3]
    state[3] += np.uint64(1)
    state[0] = state[1] ^ (state[1] >> np.uint64(11))
    state[1] = state[2] + (state[2] << np.uint64(3))
    state[2] = ((state[2] << np.uint64(24)) | (state[2] >> np.uint64(40))) + drawn
    return drawn


@numba.njit(nogil=True, cache=True)
def seeded(seed_K):
    """The states ``[K, 4]`` of streams that numpy would seed by three words each ``[K, 3]``."""
    state_K = np.empty((len(seed_K), 4), dtype=np.uint64)
    for k in range(len(seed_K)):
        state_K[k, :3] = seed_K[k]
        state_K[k, 3] = 1
        for _ in range(_WARM_UP):
            _next(state_K[k])
    return state_K


@numba.njit(nogil=True, cache=True)
def draw(state_K, start_K, words):
    """The next words of each stream, those of k from ``start_K[k]`` to ``start_K[k + 1]``."""
    for k in range(len(state_K)):
        own = state_K[k].copy()
        a, b, c, count = own[0], own[1], own[2], own[3]
        for i in range(start_K[k], start_K[k + 1]):
            drawn = a + b + count
            words[i] = drawn
            count += np.uint64(1)
            a = b ^ (b >> np.uint64(11))
            b = c + (c << np.uint64(3))
            c = ((c << np.uint64(24)) | (c >> np.uint64(40))) + drawn
        state_K[k, 0], state_K[k, 1], state_K[k, 2], state_K[k, 3] = a, b, c, count
