"""Seconds and memory of GraphFL on a graph too large for full batches.

    python benchmarks/large_graph.py                    2.4 million nodes, 60 million directed edges
    python benchmarks/large_graph.py --nodes 600000     a smaller one of the same kind

GraphFL's setting for Amazon2M: 50 clients who all hold the whole graph, 80 labels per class among
them, a fifth of them per episode, 15 local steps. Each local step sees METIS clusters of the graph,
as Cluster-GCN does. The graph is random communities, with as many nodes, edges, features and
classes as Amazon2M (ogbn-products has it, if its data is at hand: --data ogbn-products).
"""

import argparse
import os
import resource
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from atoll.data.base import Dataset, datasets
from atoll.data.communities import Communities
from atoll.data.split import Split
from atoll.experiment.config import Experiment, Run
from atoll.experiment.runner import load_parties, simulate
from atoll.methods.graphfl import GraphFL
from atoll.models.gcn import GCN
from atoll.optimizers.sgd import SGD
from atoll.partition.shared_graph import SharedGraph

HALF = 40  # of 80 labels per class
TESTED = 10_000


def gigabytes() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Clock:
    def __init__(self) -> None:
        self.last = time.perf_counter()

    def tell(self, what: str, facts: str = "") -> float:
        now = time.perf_counter()
        seconds, self.last = now - self.last, now
        print(f"{what}: {seconds:.1f} s, {gigabytes():.2f} GB at most{facts}", flush=True)
        return seconds


def experiment(data: Dataset, clusters: int, batch: int, clients: int) -> Experiment:
    return Experiment(
        data=data,
        split=Split(kind="per-class", per_class=HALF, per_class_val=HALF, test=TESTED),
        partition=SharedGraph(clients=clients, halve=True),
        method=GraphFL(
            model=GCN(hidden=16, dropout=0.0, head="graph"),
            optimizer=SGD(lr=0.1),
            fraction=0.2,
            epochs=15,
            beta=0.02,
            clusters=clusters,
            batch=batch,
        ),
        run=Run(),
    )


def measure(chosen: Experiment, episodes: int) -> None:
    clock, method = Clock(), chosen.method
    parties = load_parties(chosen)
    graph = parties.graphs[0]
    edges = graph.edges.shape[1]
    clock.tell(
        "make and deal",
        f"; {graph.nodes:,} nodes, {edges:,} directed edges, {graph.features} features, "
        f"{graph.classes} classes, {len(parties.graphs)} clients",
    )
    fed, state = simulate(chosen, parties)
    clock.tell("join")
    for r in range(1, episodes + 1):
        fed.begin(r)
        state = method.round(fed, state, r)
        clock.tell(f"episode {r}", " (with METIS)" if r == 1 else "")
        scores = method.measure(fed, state).body["metric/accuracy"]
        assert isinstance(scores, torch.Tensor)
        clock.tell("  scored", f"; test accuracy {100 * float(scores[:, 2].mean()):.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=2_449_029)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--data", help="a registered dataset instead")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--clusters", type=int, default=1_500)
    parser.add_argument("--batch", type=int, default=2, help="clusters a step")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data: Dataset
    if args.data:
        data = datasets[args.data]()
    else:
        data = Communities(
            nodes=args.nodes,
            degree=25.3,
            communities=max(47, args.nodes // 2_400),
            features=args.features,
            classes=47,
            signal=0.2,
        )
    measure(experiment(data, args.clusters, args.batch, args.clients), args.episodes)


if __name__ == "__main__":
    main()
