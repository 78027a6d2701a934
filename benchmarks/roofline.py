"""Each kernel of a FedAvg round against what this machine can do.

    python benchmarks/roofline.py [--clients 10 50] [--threads 1] [--page docs/performance.md]

First the machine: bytes per second of a copy too large for the caches, and multiplications and
additions per second of a large matrix product. Then the kernels on Cora's METIS parts (two graph
convolutions of 128, Adam, dropout), each alone and repeated: the median time, what it must move and
compute at the least, the time that this would take at the machine's rates, and the share of the
machine's rate that is reached. What a kernel must move is each of its inputs and outputs once: what
is read again from a cache counts once, and the lines that a copy fetches before it overwrites them
do not count, so that a kernel may reach more than 100 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch
from scipy import sparse
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.packed import Packed
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.memory import keep_freed_memory
from atoll.experiment.parties import load_parties
from atoll.files import write_json
from atoll.methods.base import Info
from atoll.methods.fed_pub.proxy import proxy_cohort
from atoll.models.base import Model
from atoll.ops.dense import product
from atoll.ops.dropout import dropout
from atoll.ops.own_rows import spread
from atoll.ops.ragged import ragged_linear
from atoll.ops.sparse import Sparse
from atoll.optimizers.base import Optimizer
from atoll.rng import CohortRng
from atoll.tree import Params, replicated
from beside.machine import machine
from beside.page import with_table

KEPT = Path(__file__).parent / "results" / "roofline.json"
WIDTH, FLOAT = 128, 4
# Of a matrix entry in CSR: a value and a 32-bit column.
ENTRY = 8
_LARGE = 2**26


@dataclass(frozen=True)
class Kernel:
    """A part of a round: what it does, and what it can't do without."""

    name: str
    run: Callable[[], object]
    bytes: int
    flops: int = 0


def seconds(run: Callable[[], object], budget: float) -> float:
    """The median of as many runs as fit into the budget, three at least.

    Of CPU time on one thread, which other work on the machine disturbs less; else by the clock.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    run()
    found: list[float] = []
    while sum(found) < budget or len(found) < 3:
        started = clock()
        run()
        found.append(clock() - started)
    return statistics.median(found)


def rates(budget: float) -> dict[str, float]:
    """Bytes per second to and from memory, and operations per second of a matrix product.

    The product is that of the faster of the two libraries which torch brings.
    """
    here, there = torch.ones(_LARGE), torch.empty(_LARGE)
    left, right = torch.randn(2048, 2048), torch.randn(2048, 2048)
    out = torch.empty(2048, 2048)
    products = (lambda: torch.mm(left, right, out=out), lambda: product(left, right))
    return {
        "bytes": 2 * FLOAT * _LARGE / seconds(lambda: there.copy_(here), budget),
        "flops": 2 * 2048**3 / min(seconds(run, budget) for run in products),
    }


def kernels(clients: int) -> Iterator[Kernel]:
    """Those of one round of training, each with inputs of its own."""
    experiment = resolve(
        {
            "method": {"name": "fed-avg"},
            "data": {"name": "cora"},
            "partition": {"name": "metis", "clients": clients},
        }
    )
    cohort = Cohort(load_parties(experiment).graphs)
    info = Info(clients, cohort.features, cohort.classes, torch.float32)
    model = experiment.method.initial_model(info, 0)
    params_K = {name: p.clone() for name, p in replicated(model, clients).items()}
    yield from first_layer(cohort, model["conv1.weight"], experiment.method.optimizer)
    yield from sparse_kernels(cohort, params_K["conv1.weight"])
    yield from dense_kernels(cohort, params_K["conv2.weight"])
    yield from model_kernels(experiment.method.optimizer, model, params_K)
    yield similarity(experiment.method.model, params_K, info)


def similarity(model: Model, params_K: Params, info: Info) -> Kernel:
    """What FED-PUB's server makes of every round's models, on a graph of 500 nodes."""
    proxy = proxy_cohort("sbm", info.features, info.classes, 0.01, info.clients, info.dtype, 0)
    nodes, weights = proxy.sizes[0], params_K["conv1.weight"]

    def embed() -> Tensor:
        with torch.no_grad():
            return model.mean_embedding(params_K, proxy)

    moved = (weights.numel() + nodes * info.features) * FLOAT
    return Kernel(
        "FED-PUB: all models on the proxy graph", embed, moved, 2 * nodes * weights.numel()
    )


def first_layer(cohort: Cohort, common: Tensor, optimizer: Optimizer) -> Iterator[Kernel]:
    """Whose weights are kept by clients' own rows, all of which begin a round as common ones."""
    assert isinstance(cohort.inputs, Packed)
    places = cohort.inputs.places
    assert places is not None
    entries, stack = propagated_entries(cohort), spread(common, places)
    nodes, own = len(cohort.batch), len(places.rows) * WIDTH * FLOAT
    moved, flops = entries * ENTRY + nodes * WIDTH * FLOAT, 2 * entries * WIDTH
    with torch.no_grad():
        found = cohort.inputs.linear_vjp(stack, "gcn")
        assert found is not None
        h, pull = found
        grad = pull(torch.full_like(h, 1e-3))
    yield Kernel(
        "first layer, forward: (P X) W, from the common rows",
        lambda: cohort.inputs.linear_vjp(spread(common, places, stack), "gcn"),
        moved + 2 * common.numel() * FLOAT,
        flops,
    )
    state = optimizer.init({"w": torch.zeros_like(stack.own)}) | {"steps": torch.zeros(cohort.k)}

    def step() -> None:
        begun = spread(common, places, stack)
        optimizer.step({"w": begun.room()}, {"w": replace(grad, of=begun)}, state)

    # Each own row is written, its moments are read and written.
    yield Kernel("first layer, backward: (P X)' G, and Adam in one", step, moved + 5 * own, flops)
    yield Kernel(
        "first layer, forward: (P X) W, of own rows",
        lambda: cohort.linear(stack, propagated="gcn"),
        moved + own,
        flops,
    )


def sparse_kernels(cohort: Cohort, weight_K: Tensor) -> Iterator[Kernel]:
    nodes, k = len(cohort.batch), cohort.k
    with torch.no_grad():
        first = cohort.linear(weight_K, propagated="gcn")
    hidden = nodes * WIDTH * FLOAT
    operator: Sparse = cohort.operator("gcn")
    entries = operator.csr._nnz()
    yield Kernel(
        f"propagation, forward or backward: P H, {k} clients in one matrix",
        lambda: operator @ first,
        entries * ENTRY + 2 * hidden,
        2 * entries * WIDTH,
    )


def propagated_entries(cohort: Cohort) -> int:
    """How many entries ``P X`` has over all clients."""
    count = 0
    for graph in cohort.graphs:
        reached = sparse.csr_array(graph.adjacency) + sparse.eye_array(graph.nodes, format="csr")
        count += (reached @ sparse.csr_array(graph.x)).nnz
    return count


def dense_kernels(cohort: Cohort, weight_K: Tensor) -> Iterator[Kernel]:
    nodes, sizes = len(cohort.batch), cohort.sizes
    h = torch.randn(nodes, WIDTH)
    moved = (2 * nodes * WIDTH + weight_K.numel()) * FLOAT
    flops = 2 * nodes * WIDTH * weight_K.shape[2]
    yield Kernel(
        "second layer, forward: H W", lambda: ragged_linear(h, weight_K, sizes), moved, flops
    )
    leaves = h.clone().requires_grad_(), weight_K.clone().requires_grad_()
    out, above = ragged_linear(*leaves, sizes), torch.randn(nodes, weight_K.shape[2])
    yield Kernel(
        "second layer, backward: G W' and H' G",
        lambda: torch.autograd.grad(out, leaves, above, retain_graph=True),
        2 * moved,
        2 * flops,
    )
    coins = CohortRng(0, cohort.clients, 1, "train")
    yield Kernel(
        "dropout: mask drawn and multiplied",
        lambda: dropout(h, 0.5, coins, sizes),
        2 * h.numel() * FLOAT,
    )


def model_kernels(optimizer: Optimizer, model: Params, params_K: Params) -> Iterator[Kernel]:
    clients = len(next(iter(params_K.values())))
    one = sum(p.numel() for p in model.values()) * FLOAT
    all_K = clients * one
    grads_K = {name: torch.full_like(p, 1e-3) for name, p in params_K.items()}
    state = optimizer.init(params_K)
    yield Kernel(
        "Adam on whole stacks", lambda: optimizer.step(params_K, grads_K, state), 7 * all_K
    )

    def to_all() -> None:
        for name, p in params_K.items():
            p.copy_(model[name])

    yield Kernel("spread: the model to all clients", to_all, all_K + one)
    share = torch.full((clients,), 1 / clients)

    def average() -> list[Tensor]:
        return [torch.tensordot(share, p, dims=1) for p in params_K.values()]

    yield Kernel("average: all clients' models to one", average, all_K + one)


def table(clients: int, rate: dict[str, float], budget: float) -> list[dict[str, Any]]:
    rows = []
    for kernel in kernels(clients):
        took = seconds(kernel.run, budget)
        memory, compute = kernel.bytes / rate["bytes"], kernel.flops / rate["flops"]
        rows.append(
            {
                "clients": clients,
                "kernel": kernel.name,
                "ms": 1e3 * took,
                "megabytes": kernel.bytes / 1e6,
                "megaflops": kernel.flops / 1e6,
                "least_ms": 1e3 * max(memory, compute),
                "bound": "memory" if memory >= compute else "arithmetic",
                "reached": max(memory, compute) / took,
            }
        )
    return rows


def lines(found: dict[str, Any]) -> list[str]:
    rate, threads = found["rates"], found["threads"]
    head = ("clients", "kernel", "ms", "MB", "Mflop", "least, ms", "bound by", "reached")
    text = [
        f"{found['machine']['cpu']}, {threads} thread{'s' if threads > 1 else ''}: "
        f"{rate['bytes'] / 1e9:.1f} GB/s, {rate['flops'] / 1e9:.0f} Gflop/s.",
        "",
        "| " + " | ".join(head) + " |",
        "|---:|---|---:|---:|---:|---:|---|---:|",
    ]
    for row in found["rows"]:
        text.append(
            f"| {row['clients']} | {row['kernel']} | {row['ms']:.2f} | {row['megabytes']:.1f} | "
            f"{row['megaflops']:.0f} | {row['least_ms']:.2f} | {row['bound']} | "
            f"{100 * row['reached']:.0f} % |"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per kernel")
    parser.add_argument("--json", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--page", type=Path, help="a page whose table is written")
    args = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    rate = rates(args.budget)
    rows = [row for clients in args.clients for row in table(clients, rate, args.budget)]
    found = {"machine": machine(), "threads": args.threads, "rates": rate, "rows": rows}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    write_json(args.json, found)
    print("\n".join(lines(found)))
    if args.page:
        args.page.write_text(with_table(args.page.read_text(), "roofline", lines(found)))


if __name__ == "__main__":
    try:
        main()
    except AtollError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
