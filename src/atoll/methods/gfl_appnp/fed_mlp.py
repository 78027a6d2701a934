"""Federated averaging of MLPs, trained in batches."""

from typing import Literal

from atoll.methods.base import register
from atoll.methods.gfl_appnp.batches import BatchedMLP
from atoll.methods.global_model import GlobalModel


@register("fed-mlp")
class FedMLP(BatchedMLP, GlobalModel):
    """FedAvg of MLPs over data points, the graph left out (GFL's FedMLP, Wu et al., 2022).

    What GFL becomes where the aggregator is the identity (Remark 1). Each round, clients perform
    I = ``epochs`` updates of the average on ``batch`` of their points, drawn anew for each update
    (0: all of them); the server takes the mean, every client counting the same (``weights``).
    """

    paper = ("gfl-appnp/table-2-sc",)

    evaluates: Literal["local", "global"] = "global"
    weights: Literal["labelled", "labelled-and-size", "equal"] = "equal"
