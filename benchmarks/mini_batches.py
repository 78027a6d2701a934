"""Seconds and memory of federated training in mini-batches on a graph too large for full batches.

    python benchmarks/mini_batches.py                       2.4 million nodes, 60 million edges
    python benchmarks/mini_batches.py --sampler cluster     METIS clusters instead of neighbours
    python benchmarks/mini_batches.py --nodes 600000        a smaller graph of the same kind
    python benchmarks/mini_batches.py --nodes 240000 --clients 5 --full       full batches, beside

The graph is random communities with as many nodes, directed edges, features and classes as
ogbn-products. Each of 50 clients holds a run of communities; ``--cut metis`` has METIS cut the
graph, which takes 6 GB by itself. A round is one local epoch (one pass in mini-batches) of every
client; then all are scored on their whole graphs. Each stage is reported with its seconds, on the
clock and of the processor, and the memory in use after it and at most during it.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

from atoll.data.communities import Communities
from atoll.data.split import Split
from atoll.experiment.config import Experiment, Run
from atoll.experiment.memory import keep_freed_memory, return_freed_memory
from atoll.experiment.parties import Parties, load_parties, simulate
from atoll.graph import Graph
from atoll.methods.base import methods
from atoll.models.base import models
from atoll.partition.base import Partition, by_owner
from atoll.partition.metis import Metis
from atoll.tasks.nodes import NodeClassification

T = TypeVar("T")
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def gigabytes(field: str) -> float:
    """A field of the process status: VmRSS now, VmHWM the most since the last reset."""
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


class Stages:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def run(self, name: str, work: Callable[[], T], told: Callable[[T], str] = lambda _: "") -> T:
        _RESET.write_text("5")
        clock, processor = time.perf_counter(), time.process_time()
        result = work()
        row = {
            "stage": name,
            "seconds": round(time.perf_counter() - clock, 2),
            "cpu_seconds": round(time.process_time() - processor, 2),
            "gb_after": round(gigabytes("VmRSS"), 2),
            "gb_at_most": round(gigabytes("VmHWM"), 2),
            "facts": told(result),
        }
        self.rows.append(row)
        print("{stage}: {seconds} s ({cpu_seconds} of the processor), {gb_after} GB after, "
              "{gb_at_most} GB at most {facts}".format(**row), flush=True)  # fmt: skip
        return result


@dataclass(frozen=True, kw_only=True)
class Runs(Partition):
    """Equal runs of node numbers, of which communities are made."""

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        print(f"{graph.nodes:,} nodes, {graph.edges.shape[1]:,} directed edges", flush=True)
        return by_owner(graph, np.arange(graph.nodes) * self.clients // graph.nodes, self.clients)


def experiment(args: argparse.Namespace) -> Experiment:
    data = Communities(
        nodes=args.nodes,
        degree=25.3,
        communities=max(47, args.nodes // 2_400),
        features=args.features,
        classes=47,
        signal=0.03,
    )
    task = NodeClassification(
        batch=args.batch,
        sampler=args.sampler,
        fanout=tuple(args.fanout),
        clusters=args.clusters,
    )
    if args.full:
        task = NodeClassification()
    return Experiment(
        data=data,
        split=Split(train=0.1, val=0.05),
        partition=(Metis if args.cut == "metis" else Runs)(clients=args.clients),
        method=methods[args.method](
            model=models[args.model](hidden=args.hidden),  # type: ignore[call-arg]
            task=task,
        ),
        run=Run(chunk=args.chunk, threads=args.threads),
    )


def described(parties: Parties) -> str:
    graphs = parties.graphs
    sizes, trained = [g.nodes for g in graphs], [int(g.train.sum()) for g in graphs]
    return (
        f"| {len(graphs)} clients of {min(sizes):,} to {max(sizes):,} nodes, {sum(sizes):,} in "
        f"all, {sum(g.edges.shape[1] for g in graphs):,} directed edges kept, "
        f"{min(trained):,} to {max(trained):,} training nodes"
    )


def accuracy(scores: Any) -> str:
    test = scores.body["metric/accuracy"][:, 2]
    return f"| test accuracy {100 * float(test.mean()):.1f} %"


def measure(chosen: Experiment, rounds: int) -> list[dict[str, Any]]:
    stages, method = Stages(), chosen.method
    parties = stages.run("make and cut", lambda: load_parties(chosen), described)
    return_freed_memory()
    keep_freed_memory()
    fed, state = stages.run("join", lambda: simulate(chosen, parties))
    for r in range(1, rounds + 1):
        fed.begin(r)
        state = stages.run(f"round {r}", lambda: method.round(fed, state, r))  # noqa: B023
        stages.run(f"score {r}", lambda: method.measure(fed, state), accuracy)  # noqa: B023
    return stages.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=2_449_029)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--cut", default="runs", choices=("runs", "metis"))
    parser.add_argument("--method", default="fed-avg")
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--sampler", default="neighbour", choices=("neighbour", "cluster"))
    parser.add_argument("--batch", type=int, default=0, help="0: 512 nodes, or 20 clusters")
    parser.add_argument("--fanout", type=int, nargs="*", default=[])
    parser.add_argument("--clusters", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="full batches, for comparison")
    parser.add_argument("--chunk", type=int, default=0, help="clients at once; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    args.batch = args.batch or (512 if args.sampler == "neighbour" else 20)
    torch.set_num_threads(args.threads)
    rows = measure(experiment(args), args.rounds)
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k != "json"}
        args.json.write_text(json.dumps({"settings": settings, "stages": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
