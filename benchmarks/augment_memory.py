"""Peak memory of Fed-GALA's augmentation: 50,000 anchors against 100,000 nodes by default.

All scores at once would be 20 GB in float32. Each size is measured in a process of its own.

    python benchmarks/augment_memory.py [--nodes 100000] [--anchors 50000] [--dimensions 16]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time


def measure(nodes: int, anchors: int, dimensions: int, links: int) -> dict[str, float]:
    """Link the anchors of one random graph; megabytes before, at the peak, and seconds."""
    import numpy as np
    import torch

    from atoll.graph import make_graph
    from atoll.methods.fed_gala.augment import best_links, with_links

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    edges = rng.integers(0, nodes, (2, 5 * nodes))
    graph = make_graph(np.zeros((nodes, 1), dtype=np.float32), edges, np.zeros(nodes, dtype=int))
    z = torch.from_numpy(rng.normal(size=(nodes, dimensions)).astype(np.float32))
    rows = np.sort(rng.choice(nodes, anchors, replace=False))
    linked, before, started = graph.adjacency, _peak(), time.perf_counter()
    added = best_links(z[rows], rows, z, links, linked)
    seconds = time.perf_counter() - started
    augmented = with_links(graph, added.numpy())
    return {
        "nodes": nodes,
        "anchors": anchors,
        "dimensions": dimensions,
        "links_added": (augmented.edges.shape[1] - graph.edges.shape[1]) // 2,
        "megabytes_before": before,
        "megabytes_peak": _peak(),
        "seconds": round(seconds, 1),
    }


def _peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def measured_apart(nodes: int, anchors: int, dimensions: int, links: int) -> dict[str, float]:
    """The same in a fresh process, whose peak is its own."""
    sizes = [str(n) for n in (nodes, anchors, dimensions, links)]
    command = [sys.executable, __file__, "--here", *sizes]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--anchors", type=int, default=50_000)
    parser.add_argument("--dimensions", type=int, default=16)
    parser.add_argument("--links", type=int, default=1)
    parser.add_argument("--here", type=int, nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(*given.here)))
        return
    for share in (10, 3, 1):
        nodes, anchors = given.nodes // share, given.anchors // share
        print(json.dumps(measured_apart(nodes, anchors, given.dimensions, given.links)))


if __name__ == "__main__":
    main()
