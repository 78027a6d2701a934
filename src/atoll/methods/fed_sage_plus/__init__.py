"""FedSage+."""

from atoll.methods.fed_sage_plus.method import FedSagePlus

__all__ = ["FedSagePlus"]
