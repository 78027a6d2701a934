"""The data of one client: nodes, features, edges, labels, splits, and who owns what."""

from atoll.graph.collection import first_nodes, nodes_of_graphs, renumbered_from_0
from atoll.graph.cutting import disjoint_parts
from atoll.graph.edges import (
    directed_edges,
    directed_weights,
    first_bad_weight,
    sorted_distinct,
    undirected_edges,
    undirected_weights,
)
from atoll.graph.features import Features, dense, entries, row_normalised, stacked
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
    "disjoint_parts",
    "entries",
    "first_bad_weight",
    "first_nodes",
    "largest_component",
    "make_graph",
    "node_mask",
    "nodes_of",
    "nodes_of_graphs",
    "renumbered_from_0",
    "row_normalised",
    "sorted_distinct",
    "stacked",
    "undirected_edges",
    "undirected_weights",
]
