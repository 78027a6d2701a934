"""Fed-GALA with a proximal term."""

from dataclasses import dataclass

from atoll.methods.base import methods
from atoll.methods.fed_gala import FedGala


@methods.register("fed-gala-p")
@dataclass(frozen=True, kw_only=True)
class FedGalaP(FedGala):
    """Fed-GALA with FedProx's pull, whose mu follows the loss (Fed-GALAp, Tavakoli, 2023)."""

    mu: float = 1.0
    adaptive: bool = True
