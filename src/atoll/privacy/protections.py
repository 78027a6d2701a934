"""The protections of an experiment: its section ``[privacy]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from atoll.errors import AtollError
from atoll.options import check_options, option
from atoll.privacy.accounting import Accountant, affordable, epsilon_of

Robust = Literal[
    "none", "norm-clip", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median"
]
Unit = Literal["client", "node"]


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What is done to replies before they leave a client, and how the server makes one of many.

    **Noise.** Each kind of a reply is clipped to the norm ``clip``, a model as its difference from
    the one that was sent, and gets Gaussian noise of standard deviation ``noise * clip``.
    ``noise_at = "client"`` makes each reply private by itself; ``"sum"`` divides the noise among
    the clients of a secure sum, so that the sum has it once. ``epsilon`` is the budget at
    ``delta`` (0: none): training ends before it is exceeded. ``accountant`` is ``rdp`` or the
    tighter, slower ``pld``. With ``unit = "node"`` what is clipped is the gradient of each training
    node instead, and noise is added to their sum (:mod:`atoll.privacy.node_level`).

    **Robust means.** ``robust`` replaces the mean of clients' replies by one that ``hostile`` of
    them can't move far.

    **Secure sums.** With ``secure_sum`` the server learns sums and no client's part of them, if at
    least the share ``threshold`` of the clients stays until the end of each.
    """

    noise: float = option(0.0, at_least=0)
    clip: float = option(0.0, at_least=0, why="0 means no clipping")
    epsilon: float = option(0.0, at_least=0, why="0 means no budget")
    delta: float = option(1e-5, above=0, below=1)
    accountant: Accountant = "rdp"
    noise_at: Literal["client", "sum"] = "client"
    unit: Unit = "client"
    robust: Robust = "none"
    hostile: int = option(1, at_least=1)
    secure_sum: bool = False
    threshold: float = option(0.67, above=0.5, at_most=1)

    def __post_init__(self) -> None:
        check_options("privacy", self)
        if self.noise and not self.clip:
            raise AtollError(
                "privacy.noise hides nothing without privacy.clip, which bounds what one reply "
                "can say; set privacy.clip, e.g. to 1.0."
            )
        if self.epsilon and not self.noise:
            raise AtollError(
                "privacy.epsilon is a budget that only noise can keep; set privacy.noise, e.g. "
                "to 1.0."
            )
        if self.robust != "none" and self.secure_sum:
            raise AtollError(
                f"privacy.robust = '{self.robust}' looks at single replies, which "
                f"privacy.secure_sum hides; choose one of them."
            )
        if self.noise_at == "sum" and not (self.secure_sum and self.noise):
            raise AtollError(
                "privacy.noise_at = 'sum' leaves each reply with too little noise of its own; set "
                "privacy.noise and privacy.secure_sum=true, or privacy.noise_at=client."
            )
        if self.unit == "node" and not (self.noise and self.noise_at == "client"):
            raise AtollError(
                "privacy.unit = 'node' is about the noise that each client adds; set privacy.noise "
                "and privacy.clip, and privacy.noise_at=client."
            )

    @property
    def at_the_door(self) -> bool:
        """Whether replies are changed before they leave."""
        return bool(self.clip or self.secure_sum)

    def spent(self, releases: int) -> float:
        """Epsilon after so many releases of one client."""
        return epsilon_of(self.noise, releases, self.delta, self.accountant)

    def affords(self, releases: int) -> bool:
        """Whether the budget allows one client so many releases."""
        return not self.epsilon or releases <= self.affordable

    @property
    def affordable(self) -> int:
        """How often one client may release something within the budget."""
        return affordable(self.noise, self.epsilon, self.delta, self.accountant)
