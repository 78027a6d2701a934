"""FedGTA: models are averaged among clients whose labels spread alike."""

from atoll.methods.fed_gta.method import FedGTA

__all__ = ["FedGTA"]
