"""Training alone."""

from atoll.methods.base import Alone, register


@register("local")
class Local(Alone):
    """Each client trains alone; nothing is communicated.

    What every federated method has to beat. All clients start from the same initial model, which
    each makes for itself from the public seed, so that with one client this equals FedAvg.
    """

    paper = ("fed-pub/table-2",)
    samples_nodes = True
