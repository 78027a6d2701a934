"""GFL's Theorem 4.1 against runs: the mean squared gradient, over updates T and local updates I.

    python benchmarks/gfl_rate.py [--updates 1000] [--out docs/pictures/gfl-rate.svg]

The bound on ``1/T sum_t |grad F(W^t)|^2`` has a part that falls as ``1 / (eta T)`` and one that
stays and grows at most as ``I^2 eta^2``. Deterministic nodes, all points in every update, so that
the only error is that ``C_k`` and its gradient are I updates old. Gradients of the whole objective
are taken at the averaged model after every round, in float64, by autograd.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.data.csbm import DeterministicNodes
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.graph import Graph, dense
from atoll.methods.base import Info
from atoll.methods.gfl_appnp import GFLAPPNP
from atoll.methods.gfl_appnp.personalised import personalised_propagation
from atoll.optimizers.sgd import SGD
from atoll.partition.network import client_network
from atoll.partition.node_per_client import NodePerClient
from atoll.tree import Params

LOCAL = (1, 10, 20, 50)
RATES = (0.5, 0.25, 0.125)


def squared_gradients(whole: Graph, local: int, rate: float, updates: int) -> Iterator[float]:
    """``|grad F(W)|^2`` at the first model and after every round."""
    parties = NodePerClient().cut(whole, np.random.default_rng(0))
    network = client_network(whole, parties)
    method = GFLAPPNP(epochs=local, optimizer=SGD(lr=rate))
    fed = InProcess(Host(method, Cohort(parties, dtype=torch.float64), seed=0))
    info = Info(len(parties), whole.features, whole.classes, torch.float64, network=network)
    state = method.start(info, 0)
    mixing = torch.from_numpy(personalised_propagation(network, method.alpha, method.hops))
    x = torch.from_numpy(dense(whole.x)).double()
    y, train = torch.from_numpy(whole.y), torch.from_numpy(whole.train)

    def squared(model: Params) -> float:
        w1, w2 = (model[n].clone().requires_grad_() for n in ("lin1.weight", "lin2.weight"))
        z = mixing @ ((x @ w1).relu() @ w2)
        cross_entropy(z[train], y[train]).backward()
        return float(w1.grad.square().sum() + w2.grad.square().sum())

    yield squared(state["model"])
    for r in range(1, updates // local + 1):
        fed.begin(r)
        state = method.round(fed, state, r)
        yield squared(state["model"])


def running_mean(values: list[float]) -> np.ndarray:
    return np.cumsum(values) / np.arange(1, len(values) + 1)


def slope(updates: np.ndarray, means: np.ndarray) -> float:
    """Of the running mean against T, both as logarithms, over the last half of the updates."""
    late = updates >= updates[-1] / 2
    return float(np.polyfit(np.log(updates[late]), np.log(means[late]), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    whole = DeterministicNodes().load()
    table = Table("I", "eta", "mean over T", "at T", "slope", title=f"T = {args.updates} updates")
    curves = []
    for local, rate in [*((i, RATES[0]) for i in LOCAL), *((LOCAL[-1], r) for r in RATES[1:])]:
        found = list(squared_gradients(whole, local, rate, args.updates))
        updates = local * np.arange(1, len(found) + 1)
        means = running_mean(found)
        bend = slope(updates, means)
        table.add_row(
            str(local), f"{rate:g}", f"{means[-1]:.2e}", f"{found[-1]:.2e}", f"{bend:.2f}"
        )
        curves.append((f"I = {local}, rate {rate:g}", updates, means))
    Console().print(table)
    if args.out is not None:
        draw(curves, args.out)


def draw(curves: list[tuple[str, np.ndarray, np.ndarray]], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for label, updates, means in curves:
        axes.loglog(updates, means, label=label, linewidth=1.2)
    _, updates, means = curves[0]
    axes.loglog(updates, means[-1] * updates[-1] / updates, "k--", linewidth=0.8, label="1 / T")
    axes.set(xlabel="updates T", ylabel="mean squared gradient up to T")
    axes.legend(fontsize=7)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main()
