"""What messages tell: attacks on what was really sent in a run, one file each."""

from __future__ import annotations

from collections.abc import Callable

from atoll.privacy.attacks.evidence import Attacker, Evidence
from atoll.privacy.attacks.feature_inversion import feature_inversion
from atoll.privacy.attacks.finding import Finding
from atoll.privacy.attacks.gradient_inversion import gradient_inversion
from atoll.privacy.attacks.link_stealing import link_stealing
from atoll.privacy.attacks.membership import membership

__all__ = ["ATTACKS", "Attack", "Attacker", "Evidence", "Finding"]

Attack = Callable[[Evidence, Attacker, Callable[[], None]], list[Finding]]
ATTACKS: dict[str, Attack] = {
    "link-stealing": link_stealing,
    "membership": membership,
    "gradient-inversion": gradient_inversion,
    "feature-inversion": feature_inversion,
}
