"""One MLP per client, trained alone in batches."""

from atoll.methods.base import Alone, register
from atoll.methods.gfl_appnp.batches import BatchedMLP


@register("mlp")
class LoneMLPs(BatchedMLP, Alone):
    """Each client trains an MLP on its own data points alone (GFL's MLPs, Wu et al., 2022).

    A round is I = ``epochs`` updates on ``batch`` of a client's points, drawn anew for each update
    (0: all of them). Nothing is communicated.
    """

    paper = ("gfl-appnp/table-2-sc",)
