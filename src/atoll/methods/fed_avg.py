"""Federated averaging."""

from atoll.methods.base import register
from atoll.methods.layers import PartlyShared


@register("fed-avg")
class FedAvg(PartlyShared):
    """Clients train the global model locally; the server averages (McMahan et al., 2017).

    Each round, the server sends the global model to a ``fraction`` of the clients, each trains it
    for ``epochs`` full-batch steps, and the server takes the mean weighted by labelled nodes:
    ``theta <- sum_k (n_k / n) theta_k``. The server sees the sum only, so the method runs under
    secure aggregation. Other ``weights`` are those of Fed-GALA.

    ``keep_optimizer`` lets Adam's moments live on across rounds (as in FED-PUB's code); without it
    each round starts with fresh ones. Layers in ``own_layers`` stay with each client.
    """

    paper = ("fed-pub/table-2",)
