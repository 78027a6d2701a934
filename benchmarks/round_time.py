"""Time of a FedAvg round on Cora against a plain PyG loop over the clients, in one run.

    python benchmarks/round_time.py [--clients 10 50] [--rounds 30] [--repeats 3]

Both sides train the same model (two GCN layers of 128 and a linear classifier, Adam, one local
epoch) on the same METIS parts and evaluate every client every round. Sides alternate, and the
median of the repeats is reported: CPU seconds with one thread each, wall seconds with two.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch
from rich.console import Console
from rich.table import Table

from atoll.experiment.config import Experiment, resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.runner import Parties, load_parties, simulate
from atoll.experiment.threads import threads
from atoll.graph import Graph

Round = Callable[[], object]
WARM_UP = 3


def atoll_side(experiment: Experiment, parties: Parties) -> Round:
    fed, state = simulate(experiment, parties)
    method, r = experiment.method, 0

    def one_round() -> None:
        nonlocal state, r
        r += 1
        # As in a run that was given so many threads.
        with threads(torch.get_num_threads(), parties.graphs):
            fed.begin(r)
            state = method.round(fed, state, r)
            method.measure(fed, state)

    return one_round


def pyg_side(parties: list[Graph], lr: float) -> Round:
    # Importing torch_geometric takes seconds, and only this side needs it.
    from beside.parts import part_of
    from beside.pyg_side import plain_loop

    return plain_loop([part_of(graph) for graph in parties], lr=lr)


def measure(one_round: Round, rounds: int, clock: Callable[[], float]) -> float:
    started = clock()
    for _ in range(rounds):
        one_round()
    return (clock() - started) / rounds * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    keep_freed_memory()
    table = Table("clients", "threads", "clock", "PyG loop, ms", "Atoll, ms", "ratio")
    for clients in args.clients:
        experiment = resolve(
            {
                "method": {"name": "fed-avg"},
                "data": {"name": "cora"},
                "partition": {"name": "metis", "clients": clients},
            }
        )
        parties = load_parties(experiment)
        sides = [pyg_side(parties.graphs, 0.01), atoll_side(experiment, parties)]
        for count, clock, name in ((1, time.process_time, "CPU"), (2, time.perf_counter, "wall")):
            torch.set_num_threads(count)
            for side in sides:
                measure(side, WARM_UP, clock)
            runs = [[measure(s, args.rounds, clock) for s in sides] for _ in range(args.repeats)]
            pyg, ours = (statistics.median(column) for column in zip(*runs, strict=True))
            cells = (clients, count, name, f"{pyg:.1f}", f"{ours:.1f}", f"{pyg / ours:.1f}")
            table.add_row(*map(str, cells))
    Console().print(table)


if __name__ == "__main__":
    main()
