"""GraphFL: meta-learning for unevenly distributed labels, for new label domains, and FL+TL."""

from atoll.methods.graphfl.domain import GraphFLDomain
from atoll.methods.graphfl.method import GraphFL
from atoll.methods.graphfl.transfer import FedAvgTransfer

__all__ = ["FedAvgTransfer", "GraphFL", "GraphFLDomain"]
