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

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy, dropout

from atoll.experiment.config import Experiment, resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.runner import Parties, load_parties, simulate
from atoll.graph import Graph

Round = Callable[[], None]
WARM_UP = 3


def atoll_side(experiment: Experiment, parties: Parties) -> Round:
    fed, state = simulate(experiment, parties)
    method, r = experiment.method, 0

    def one_round() -> None:
        nonlocal state, r
        r += 1
        fed.begin(r)
        state = method.round(fed, state, r)
        method.measure(fed, state)

    return one_round


def pyg_side(parties: list[Graph], lr: float) -> Round:
    from torch_geometric.nn import GCNConv

    class Net(torch.nn.Module):
        def __init__(self, features: int, classes: int) -> None:
            super().__init__()
            self.conv1 = GCNConv(features, 128)
            self.conv2 = GCNConv(128, 128)
            self.classifier = torch.nn.Linear(128, classes)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            h = dropout(self.conv1(x, edges).relu(), training=self.training)
            h = dropout(self.conv2(h, edges).relu(), training=self.training)
            return self.classifier(h)

    clients = []
    for g in parties:
        net = Net(g.features, g.classes)
        tensors = (torch.from_numpy(a) for a in (g.x.toarray(), g.edges, g.y))
        masks = [torch.from_numpy(mask) for mask in (g.train, g.val, g.test)]
        clients.append((net, torch.optim.Adam(net.parameters(), lr=lr), *tensors, masks))
    weights = torch.tensor([float(g.train.sum()) for g in parties])
    weights /= weights.sum()
    state = clients[0][0].state_dict()

    def one_round() -> None:
        nonlocal state
        sums = {name: torch.zeros_like(value) for name, value in state.items()}
        for weight, (net, adam, x, edges, y, masks) in zip(weights, clients, strict=True):
            net.load_state_dict(state)
            net.train()
            adam.zero_grad()
            cross_entropy(net(x, edges)[masks[0]], y[masks[0]]).backward()
            adam.step()
            net.eval()
            with torch.no_grad():
                right = net(x, edges).argmax(1) == y
                [right[mask].float().mean().item() for mask in masks]
                for name, value in net.state_dict().items():
                    sums[name] += weight * value
        state = sums

    return one_round


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
        for threads, clock, name in ((1, time.process_time, "CPU"), (2, time.perf_counter, "wall")):
            torch.set_num_threads(threads)
            for side in sides:
                measure(side, WARM_UP, clock)
            runs = [[measure(s, args.rounds, clock) for s in sides] for _ in range(args.repeats)]
            pyg, ours = (statistics.median(column) for column in zip(*runs, strict=True))
            cells = (clients, threads, name, f"{pyg:.1f}", f"{ours:.1f}", f"{pyg / ours:.1f}")
            table.add_row(*map(str, cells))
    Console().print(table)


if __name__ == "__main__":
    main()
