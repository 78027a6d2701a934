"""Which protections a run has: what a policy may require.

A protection counts here once it is carried out at the site itself, on every reply: a promise of the
coordinator's is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from atoll.experiment.config import Experiment


@dataclass(frozen=True)
class Protections:
    """``secure_sum``: the server sees sums only, whatever it does. ``epsilon``: what the noise that
    the site adds bounds its loss of privacy by over the whole run, at ``delta``; infinite without.
    ``unit`` is whose part that hides: the whole client's, or one node's.
    """

    secure_sum: bool = False
    epsilon: float = math.inf
    delta: float = 0.0
    unit: str = "client"


def protections_of(experiment: Experiment) -> Protections:
    """The protections that this site carries out in a run: those of its section ``privacy``.

    Noise counts with the budget at which training ends; without one it bounds nothing.
    """
    privacy: Any = getattr(experiment, "privacy", None)
    if privacy is None:
        return Protections()
    bounded = bool(privacy.noise and privacy.epsilon)
    return Protections(
        secure_sum=bool(privacy.secure_sum),
        epsilon=float(privacy.epsilon) if bounded else math.inf,
        delta=float(privacy.delta) if bounded else 0.0,
        unit=str(privacy.unit),
    )
