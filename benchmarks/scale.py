"""Seconds and memory to make, cut and pack large graphs.

    python benchmarks/scale.py            a graph as large as ogbn-arxiv, 20 clients
    python benchmarks/scale.py --large    2.4 million nodes, 60 million directed edges, 10 clients
    python benchmarks/scale.py --data debian-deps    a registered dataset, 20 clients

Each stage is reported with its seconds, the memory in use after it and the most in use during it.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from rich.console import Console
from rich.table import Table

from atoll.cohort import Cohort
from atoll.data.base import Dataset, datasets
from atoll.data.communities import Communities
from atoll.data.split import Split
from atoll.partition import partitions
from atoll.rng import server_stream

HIDDEN = 16
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(field: str) -> float:
    """A field of the process status in GB: VmRSS now, VmHWM the most since the last reset."""
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


class Stages:
    def __init__(self, title: str) -> None:
        self.table = Table("stage", "seconds", "GB after", "GB at most", "", title=title)
        self.seconds, self.most = 0.0, 0.0

    def run(self, name: str, work: Callable[[], Any], told: Callable[[Any], str]) -> Any:
        _RESET.write_text("5")
        started = time.perf_counter()
        result = work()
        seconds, most = time.perf_counter() - started, memory("VmHWM")
        self.seconds, self.most = self.seconds + seconds, max(self.most, most)
        cells = (f"{seconds:.1f}", f"{memory('VmRSS'):.2f}", f"{most:.2f}", told(result))
        self.table.add_row(name, *cells)
        print(f"{name}: {seconds:.1f} s", flush=True)
        return result

    def show(self) -> None:
        self.table.add_section()
        self.table.add_row("all", f"{self.seconds:.1f}", "", f"{self.most:.2f}", "")
        Console().print(self.table)


def measure(data: Dataset, partition: str, clients: int) -> None:
    stages = Stages(f"{data.registered_name}, {partition} into {clients}")
    made = stages.run(
        "make",
        data.load,
        lambda g: f"{g.nodes:,} nodes, {g.edges.shape[1]:,} directed edges, {g.features} features",
    )
    whole = stages.run(
        "split", lambda: Split().apply(made, server_stream(0, 0, "split")), lambda _: ""
    )
    scheme = partitions[partition](clients=clients)  # type: ignore[call-arg]
    parts = stages.run(
        "cut",
        lambda: scheme.cut(whole, server_stream(0, 0, "partition")),
        lambda parts: (
            f"{min(p.nodes for p in parts):,} to {max(p.nodes for p in parts):,} nodes, "
            f"{sum(p.edges.shape[1] for p in parts):,} edges kept"
        ),
    )
    cohort = stages.run("cohort", lambda: Cohort(parts), lambda _: "")
    stages.run("operator", lambda: cohort.operator("gcn"), lambda a: f"{a.csr._nnz():,} entries")
    weight_K = torch.zeros(cohort.k, cohort.features, HIDDEN)
    stages.run("features", lambda: cohort.linear(weight_K), lambda h: f"{tuple(h.shape)}")
    stages.run(
        "propagated features",
        lambda: cohort.linear(weight_K, propagated="gcn"),
        lambda h: f"{tuple(h.shape)}",
    )
    stages.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--large", action="store_true", help="2.4 million nodes instead")
    parser.add_argument("--nodes", type=int, help="another size, with the large graph's degree")
    parser.add_argument("--data", help="a registered dataset instead")
    parser.add_argument("--partition", default="metis")
    parser.add_argument("--clients", type=int)
    args = parser.parse_args()
    large = args.large or args.nodes
    data: Dataset
    if args.data:
        data = datasets[args.data]()
    elif large:
        nodes = args.nodes or 2_400_000
        data = Communities(nodes=nodes, degree=25.1, communities=1_000, features=16)
    else:
        data = Communities()
    measure(data, args.partition, args.clients or (10 if large else 20))


if __name__ == "__main__":
    main()
