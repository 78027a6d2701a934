"""FedGNN."""

from atoll.methods.fed_gnn.method import FedGNN

__all__ = ["FedGNN"]
