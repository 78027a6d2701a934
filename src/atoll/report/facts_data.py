"""The data of a group of runs as plain facts: who holds what, and the graph as it is drawn.

No id of a node is among them: nodes are places on the paper with a class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from atoll.errors import AtollError
from atoll.experiment.runner import load_whole, parties_of, site_names
from atoll.graph import Graph
from atoll.partition.statistics import PartitionStatistics
from atoll.report.pictures import sample, spring_layout
from atoll.report.sources import Group

_DRAWN_NODES, _DRAWN_OF_A_CLIENT = 700, 220
_DRAWN_EDGES, _EDGES_OF_A_CLIENT = 3000, 600
_DRAWN_CLIENTS = 30
_MOST_NODES = 200_000
_MOST_CLASSES = 60


def data_facts(group: Group) -> dict[str, Any]:
    """Partition, label distributions and drawings, or why they can't be shown (``missing``)."""
    if group.deployed:
        return {"missing": "In a deployment every site's data stays with it."}
    experiment = group.first.experiment
    try:
        whole = load_whole(experiment)
        parties = parties_of(experiment, whole)
    except (AtollError, OSError) as problem:
        return {"missing": f"The data could not be loaded again: {problem}"}
    if whole.nodes > _MOST_NODES:
        return {
            "missing": f"A graph of {whole.nodes} nodes is too large to be looked at here; see: "
            f"atoll describe {group.origin / 'config.toml'}",
            "sites": list(site_names(whole, parties)),
        }
    cut = PartitionStatistics(whole, parties)
    facts = cut.summary()
    names = whole.class_names or tuple(f"class {c}" for c in range(whole.classes))
    labelled = whole.classes <= _MOST_CLASSES and bool(cut.labels.sum())
    return {
        "sites": list(site_names(whole, parties)),
        "facts": {k: v for k, v in facts.items() if k != "per_client"},
        "per_client": [
            {k: v for k, v in row.items() if k != "name"} for row in facts["per_client"]
        ],
        "classes": list(names) if labelled else [],
        "labels": cut.labels.tolist() if labelled else [],
        "lost": cut.missing.tolist() if len(parties) <= _DRAWN_CLIENTS else [],
        "drawing": _drawing(cut),
    }


def _drawing(cut: PartitionStatistics) -> dict[str, Any]:
    whole, owner = cut.whole, np.full(cut.whole.nodes, -1)
    for client in reversed(range(len(cut.parties))):
        owner[cut.places[client]] = client
    drawn = _some_of_each(cut)
    picture = _drawn(whole.subgraph(drawn), cut.anchors[drawn], _DRAWN_EDGES)
    picture |= {"owner": owner[drawn].tolist(), "of": whole.nodes}
    parts = []
    for client, graph in enumerate(cut.parties[:_DRAWN_CLIENTS]):
        rows = sample(graph, _DRAWN_OF_A_CLIENT)
        anchors = cut.anchors[cut.places[client][rows]]
        part = _drawn(graph.subgraph(rows), anchors, _EDGES_OF_A_CLIENT)
        parts.append(part | {"of": graph.nodes})
    return {"whole": picture, "parts": parts}


def _some_of_each(cut: PartitionStatistics) -> np.ndarray:
    """All nodes of a small graph; of a large one, the same share of every client's."""
    if cut.whole.nodes <= _DRAWN_NODES:
        return np.arange(cut.whole.nodes)
    share = _DRAWN_NODES / max(1, sum(graph.nodes for graph in cut.parties))
    parts = [
        cut.places[client][sample(graph, max(4, round(share * graph.nodes)))]
        for client, graph in enumerate(cut.parties)
    ]
    return np.unique(np.concatenate(parts))[: 2 * _DRAWN_NODES]


def _drawn(graph: Graph, anchors: np.ndarray, most_edges: int) -> dict[str, Any]:
    """Places in a square of side 1000, edges once each, classes, and who is held by several."""
    position = spring_layout(graph) if graph.nodes else np.zeros((0, 2))
    if graph.nodes:
        # A few nodes that drifted off would leave the others no room: they stay at the border.
        low, high = np.quantile(position, [0.01, 0.99], axis=0)
        position = np.clip((position - low) / np.maximum(high - low, 1e-9), 0, 1) * 1000
    edges = np.unique(np.sort(graph.edges, axis=0), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    total = edges.shape[1]
    if total > most_edges:
        edges = edges[:, np.random.default_rng(0).permutation(total)[:most_edges]]
    return {
        "at": position.round().astype(int).reshape(-1).tolist(),
        "edges": edges.T.reshape(-1).tolist(),
        "all_edges": total,
        "y": graph.y.tolist(),
        "anchors": np.flatnonzero(anchors).tolist(),
    }
