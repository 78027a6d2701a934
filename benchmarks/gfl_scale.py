"""Seconds and memory of GFL-APPNP with a client a node: 300 of Cora, and all 2,708.

    python benchmarks/gfl_scale.py [--rounds 10] [--local 10]

Each federation runs in a process of its own, so that the memory reported is its own peak.
"""

import argparse
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rich.console import Console
from rich.table import Table

SETTINGS = {
    "split": {"kind": "public"},
    "partition": {"name": "node-per-client"},
    "model": {"name": "mlp", "hidden": 64, "dropout": 0.0, "bias": False},
    "optimizer": {"name": "sgd", "lr": 0.02},
}
DATA = {"subcora": {"name": "subcora"}, "cora": {"name": "cora", "largest_component": False}}
FEDERATIONS = (
    ("subcora", "exact"),
    ("subcora", "none"),
    ("subcora", "noisy"),
    ("cora", "exact"),
    ("cora", "none"),
)


def peak_gb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def measure(data: str, compensation: str, rounds: int, local: int) -> tuple[str, ...]:
    from atoll.experiment.config import resolve
    from atoll.experiment.runner import run_experiment

    method = {"name": "gfl-appnp", "epochs": local, "compensation": compensation}
    experiment = resolve(
        SETTINGS | {"data": DATA[data], "method": method, "run": {"rounds": rounds}}
    )
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        result = run_experiment(experiment, Path(scratch) / "run")
    seconds = time.perf_counter() - started
    return (
        data,
        f"{result.clients:,}",
        f"{sum(client['train_nodes'] > 0 for client in result.per_client)}",
        compensation,
        f"{seconds:.1f}",
        f"{1000 * result.seconds_per_round:.0f}",
        f"{result.bytes_up / rounds / 1e6:.1f}",
        f"{result.bytes_down / rounds / 1e6:.1f}",
        f"{peak_gb():.2f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--local", type=int, default=10, help="updates per round")
    args = parser.parse_args()
    table = Table(
        "data", "clients", "training", "compensation", "s in all", "ms a round", "MB up a round",
        "MB down a round", "GB at most", title=f"{args.rounds} rounds of {args.local} updates",
    )  # fmt: skip
    for data, compensation in FEDERATIONS:
        with get_context("spawn").Pool(1) as pool:
            table.add_row(*pool.apply(measure, (data, compensation, args.rounds, args.local)))
    Console().print(table)


if __name__ == "__main__":
    main()
