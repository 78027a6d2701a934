"""FED-PUB, and what its released code does instead."""

from atoll.methods.fed_pub.as_published import FedPubAsPublished
from atoll.methods.fed_pub.method import FedPub

__all__ = ["FedPub", "FedPubAsPublished"]
