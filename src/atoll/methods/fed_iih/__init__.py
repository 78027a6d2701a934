"""FedIIH: one mixture of clients per latent factor."""

from atoll.methods.fed_iih.method import FedIIH

__all__ = ["FedIIH"]
