"""The data of one client: nodes, features, edges, labels, splits, and who owns what."""

from atoll.graph.edges import directed_edges, sorted_distinct, undirected_edges
from atoll.graph.features import Features, dense, row_normalised, stacked
from atoll.graph.graph import SPLITS, Graph, largest_component, make_graph, node_mask
from atoll.graph.holding import Holding, View, nodes_of

__all__ = [
    "SPLITS",
    "Features",
    "Graph",
    "Holding",
    "View",
    "dense",
    "directed_edges",
    "largest_component",
    "make_graph",
    "node_mask",
    "nodes_of",
    "row_normalised",
    "sorted_distinct",
    "stacked",
    "undirected_edges",
]
