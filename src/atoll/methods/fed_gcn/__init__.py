"""FedGCN: sums of neighbours' features are exchanged once, then models are averaged."""

from atoll.methods.fed_gcn.method import FedGCN

__all__ = ["FedGCN"]
