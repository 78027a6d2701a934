"""Fed-GALA with a proximal term."""

from dataclasses import dataclass

from atoll.methods.base import methods
from atoll.methods.fed_gala import FedGala


@methods.register("fed-gala-p")
@dataclass(frozen=True, kw_only=True)
class FedGalaP(FedGala):
    """Fed-GALA with FedProx's pull, whose mu follows the loss (Fed-GALAp, Tavakoli, 2023).

    It needs losses that are sums. Beside means, a pull that starts from mu = 1 holds the model so
    still that every client counts as converged within some 20 rounds, long before mu has come down.
    """

    mu: float = 1.0
    adaptive: bool = True
