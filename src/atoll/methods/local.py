"""Training alone."""

from dataclasses import dataclass

from atoll.methods.base import Alone, methods


@methods.register("local")
@dataclass(frozen=True, kw_only=True)
class Local(Alone):
    """Each client trains alone; nothing is communicated.

    What every federated method has to beat. All clients start from the same initial model, which
    each makes for itself from the public seed, so that with one client this equals FedAvg.
    """
