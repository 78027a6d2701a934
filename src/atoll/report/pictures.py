"""Pictures of a partition: labels, missing edges, and the graph itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.partition.statistics import PartitionStatistics

_DRAWN_NODES = 1200
_DRAWN_CLIENTS = 12
_PER_ROW = 4
_FORMATS = (".png", ".svg", ".pdf")


def draw_partition(cut: PartitionStatistics, path: Path, title: str) -> None:
    """One picture of everything; its format follows from the file's ending."""
    if path.suffix not in _FORMATS:
        raise AtollError(
            f"'{path}' can't be drawn; end its name with one of {', '.join(_FORMATS)}."
        )
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    clients = min(len(cut.parties), _DRAWN_CLIENTS)
    rows = -(-clients // _PER_ROW)
    figure = plt.figure(figsize=(14, 9 + 3.2 * rows), layout="constrained")
    figure.suptitle(title)
    parts: Any = figure.subfigures(3, 1, height_ratios=[4, 5, 3.2 * rows])
    top, middle, bottom = parts
    left, right = top.subplots(1, 2)
    _labels(cut, left)
    _missing(cut, right, top)
    _graphs(cut, middle, bottom, clients, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _labels(cut: PartitionStatistics, axes: Any) -> None:
    """Stacked bars: which classes each client holds."""
    clients = np.arange(len(cut.parties))
    height = np.zeros(len(clients))
    for c, counts in enumerate(cut.labels.T):
        axes.bar(clients, counts, bottom=height, color=_colour(c), label=f"class {c}")
        height += counts
    axes.set(title="Labels of each client", xlabel="client", ylabel="nodes")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if cut.whole.classes <= 20:
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def _missing(cut: PartitionStatistics, axes: Any, figure: Any) -> None:
    """Heatmap: edges lost between each pair of clients."""
    image = axes.imshow(cut.missing, cmap="Blues", vmin=0, vmax=max(1, cut.missing.max()))
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(
        title=f"Missing edges between clients ({cut.missing_edges} in all)",
        xlabel="client",
        ylabel="client",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)


def _graphs(cut: PartitionStatistics, middle: Any, bottom: Any, clients: int, rows: int) -> None:
    """The whole graph, then each client's own part of it, by label, shared nodes in black."""
    drawn = sample(cut.whole, _DRAWN_NODES)
    part = cut.whole.subgraph(drawn)
    position = spring_layout(part)
    anchors = cut.anchors[drawn]
    axes = middle.subplots()
    _network(axes, position, part.edges, np.arange(len(drawn)), part.y, anchors)
    shown = "" if len(drawn) == cut.whole.nodes else f" ({len(drawn)} nodes drawn)"
    axes.set_title(f"The whole graph by label, shared nodes in black{shown}")
    place = np.full(cut.whole.nodes, -1)
    place[drawn] = np.arange(len(drawn))
    panels = np.atleast_1d(bottom.subplots(rows, _PER_ROW)).reshape(-1)
    for client, panel in enumerate(panels):
        panel.axis("off")
        if client >= clients:
            continue
        graph, nodes = cut.parties[client], place[cut.places[client]]
        edges = nodes[graph.edges]
        mine, kinds = nodes[nodes >= 0], graph.y[nodes >= 0]
        _network(panel, position, edges[:, (edges >= 0).all(axis=0)], mine, kinds, anchors[mine])
        panel.set_title(f"client {client}: {graph.nodes} nodes", fontsize="small")


def _network(
    axes: Any,
    position: np.ndarray,
    edges: np.ndarray,
    nodes: np.ndarray,
    kinds: Iterable[int],
    anchors: np.ndarray,
) -> None:
    from matplotlib.collections import LineCollection

    axes.axis("off")
    lines = position[np.unique(np.sort(edges, axis=0), axis=1).T]
    axes.add_collection(LineCollection(lines, colors="#bbbbbb", linewidths=0.3))
    colours = [_colour(kind) for kind in kinds]
    axes.scatter(*position[nodes].T, s=6, c=colours, zorder=2)
    axes.scatter(*position[nodes[anchors]].T, s=14, c="black", zorder=3)
    axes.set_aspect("equal")


def _colour(kind: int) -> Any:
    from matplotlib import colormaps

    # Strong colours first: the pale half of the map is for classes 10 to 19.
    strong_first = [*range(0, 20, 2), *range(1, 20, 2)]
    return "lightgrey" if kind < 0 else colormaps["tab20"](strong_first[int(kind) % 20])


def sample(graph: Graph, most: int) -> np.ndarray:
    """All nodes of a small graph; of a large one, those nearest to its best-connected node."""
    if graph.nodes <= most:
        return np.arange(graph.nodes)
    from scipy.sparse.csgraph import breadth_first_order

    hub = int(np.diff(graph.adjacency.indptr).argmax())
    near = breadth_first_order(graph.adjacency, hub, return_predecessors=False)
    return np.sort(near[:most])


def spring_layout(graph: Graph, steps: int = 60) -> np.ndarray:
    """Force-directed positions ``[n, 2]`` (Fruchterman and Reingold, 1991), all pairs at once."""
    n = max(graph.nodes, 1)
    position = np.random.default_rng(0).normal(size=(graph.nodes, 2)).astype(np.float32)
    source, target = graph.edges
    ideal = n**-0.5
    for heat in np.linspace(0.1, 0.002, steps):
        apart = position[:, None] - position
        squared = np.maximum((apart**2).sum(-1), 1e-4)
        push = (apart * (ideal**2 / squared)[..., None]).sum(1)
        along = position[source] - position[target]
        pull = along * np.linalg.norm(along, axis=1, keepdims=True) / ideal
        np.subtract.at(push, source, pull)
        # Without a pull to the middle, unconnected pieces would drift apart for ever.
        push -= position * ideal
        length = np.maximum(np.linalg.norm(push, axis=1, keepdims=True), 1e-6)
        position += push / length * np.minimum(length, heat)
    return position
