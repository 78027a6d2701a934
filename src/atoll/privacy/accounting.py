"""What noise buys: epsilon of Gaussian releases, by the accountants of ``dp-accounting``."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

from atoll.errors import AtollError, NoReplies

Accountant = Literal["rdp", "pld"]
# So many rounds nobody trains; the search for what a budget affords ends here.
_MOST = 2**24


class BudgetSpent(NoReplies):
    """A client has nothing left of its privacy budget."""


@lru_cache(maxsize=8192)
def epsilon_of(noise: float, releases: int, delta: float, accountant: Accountant = "rdp") -> float:
    """Epsilon at ``delta`` of so many releases, each a Gaussian mechanism.

    ``noise`` is the multiplier: the noise's standard deviation divided by the most that one client
    can add to a release (its norm). No credit is taken for clients that sit rounds out at random:
    the server knows who takes part.
    """
    if releases == 0:
        return 0.0
    if noise == 0.0:
        return math.inf
    library = _library()
    known = library.rdp.RdpAccountant if accountant == "rdp" else library.pld.PLDAccountant
    composed = known().compose(library.GaussianDpEvent(noise), releases)
    return float(composed.get_epsilon(delta))


@lru_cache(maxsize=256)
def affordable(noise: float, epsilon: float, delta: float, accountant: Accountant) -> int:
    """The most releases whose epsilon is at most ``epsilon``."""

    def fits(releases: int) -> bool:
        return epsilon_of(noise, releases, delta, accountant) <= epsilon

    above = 1
    while fits(above):
        if above > _MOST:
            return above
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (above + below) // 2
        below, above = (middle, above) if fits(middle) else (below, middle)
    return below


@lru_cache(maxsize=256)
def noise_for(epsilon: float, releases: int, delta: float, accountant: Accountant = "rdp") -> float:
    """The smallest multiplier, to three digits, with which so many releases cost ``epsilon``."""
    low, high = 1e-3, 1e-3
    while epsilon_of(high, releases, delta, accountant) > epsilon:
        low, high = high, 2 * high
    while high - low > 5e-4 * high:
        middle = (low + high) / 2
        if epsilon_of(middle, releases, delta, accountant) > epsilon:
            low = middle
        else:
            high = middle
    return high


def _library() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        raise AtollError(
            "noise needs dp-accounting to say what it is worth; install atoll[privacy]."
        ) from None
    return dp_accounting
