"""The data of one client: nodes, features, edges, labels, splits, and who owns what."""

from atoll.graph.edges import (
    directed_edges,
    directed_weights,
    first_bad_weight,
    sorted_distinct,
    undirected_edges,
    undirected_weights,
)
from atoll.graph.features import Features, dense, row_normalised, stacked
from atoll.graph.graph import SPLITS, Graph
from atoll.graph.holding import Holding, View, nodes_of
from atoll.graph.making import largest_component, make_graph, node_mask

__all__ = [
    "SPLITS",
    "Features",
    "Graph",
    "Holding",
    "View",
    "dense",
    "directed_edges",
    "directed_weights",
    "first_bad_weight",
    "largest_component",
    "make_graph",
    "node_mask",
    "nodes_of",
    "row_normalised",
    "sorted_distinct",
    "stacked",
    "undirected_edges",
    "undirected_weights",
]
