"""Rounds per second with all protections on beside all off: fed-avg on Cora, METIS, 10 clients.

    python benchmarks/protected_rounds.py [--clients 10] [--rounds 20] [--repeats 3]

All that go together: clipping, noise on the sum and secure sums; a robust mean, which needs single
replies, has a row of its own. Sides alternate, and the median of the repeats is reported; run it on
a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from atoll.experiment.config import resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.parties import load_parties
from round_time import WARM_UP, atoll_side, measure

NOISE = {"noise": 1.0, "clip": 1.0}
SIDES = {
    "all off": {},
    "noise at clients": NOISE,
    "secure sums": {"secure_sum": True},
    "noise on secure sums": NOISE | {"secure_sum": True, "noise_at": "sum"},
    "trimmed mean": {"robust": "trimmed-mean", "hostile": 2},
    "noise at clients, trimmed mean": NOISE | {"robust": "trimmed-mean", "hostile": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    sides = {}
    for name, privacy in SIDES.items():
        table = {
            "method": {"name": "fed-avg"},
            "data": {"name": "cora"},
            "partition": {"name": "metis", "clients": args.clients},
            "privacy": privacy,
        }
        experiment = resolve(table)
        sides[name] = atoll_side(experiment, load_parties(experiment))
        measure(sides[name], WARM_UP, time.perf_counter)
    runs = [
        {name: measure(side, args.rounds, time.perf_counter) for name, side in sides.items()}
        for _ in range(args.repeats)
    ]
    print("| protections | ms per round | rounds per second |")
    print("|---|---|---|")
    for name in sides:
        took = statistics.median(run[name] for run in runs)
        print(f"| {name} | {took:.1f} | {1000 / took:.1f} |")


if __name__ == "__main__":
    main()
