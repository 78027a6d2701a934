"""Federated GraphSAGE."""

from dataclasses import field

from atoll.methods.base import register
from atoll.methods.global_model import GlobalModel
from atoll.models.base import Model
from atoll.models.sage import SAGE


@register("fed-sage")
class FedSage(GlobalModel):
    """FedAvg of a GraphSAGE classifier (FedSage, Zhang et al., 2021).

    Each client trains the global model on its own subgraph, and the server takes the mean weighted
    by labelled nodes. It is FedAvg in all but its default model; any model can be given instead,
    as FED-PUB gives every method a GCN. The original draws mini-batches and neighbours; here every
    step is over the whole subgraph and all neighbours, as in all methods.
    """

    model: Model = field(default_factory=SAGE)
