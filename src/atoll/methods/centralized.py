"""The oracle: one model on the whole graph."""

from atoll.methods.base import Alone, register


@register("centralized")
class Centralized(Alone):
    """One model on the whole graph, as if nobody had any secrets.

    The oracle that federated methods are measured against: it sees every node and the edges that
    the partition cut. It exists in a simulation only, where one process holds all the data.
    """

    paper = ("fed-gala/table-5-1",)

    pooled = True
    samples_nodes = True
