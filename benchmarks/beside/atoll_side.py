"""Atoll's side: rounds of a method on parts that are read from a file."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import numpy as np
import torch

from atoll.experiment.config import Experiment, resolve
from atoll.experiment.memory import keep_freed_memory, return_freed_memory
from atoll.experiment.parties import Parties, simulate
from atoll.experiment.threads import threads
from atoll.federation.calls import Replies
from atoll.federation.inprocess import InProcess
from atoll.graph import SPLITS, Graph
from atoll.tasks.base import NO_SCORE
from atoll.tree import Kinds
from beside.parts import Part, read_parts
from beside.worker import Gate, Order, serve


def play(path: Path, case: Order, gate: Gate) -> None:
    return_freed_memory()
    keep_freed_memory()
    started = time.perf_counter()
    experiment = experiment_of(case)
    graphs = [graph_of(part, k) for k, part in enumerate(read_parts(path))]
    fed, state = simulate(experiment, Parties(graphs))
    gate.open(time.perf_counter() - started)
    method, r = experiment.method, 0
    if case["generator"]:
        state = train_generators(experiment, fed, state, case["generator"], gate)
    while True:
        r += 1
        # As in a run that was given so many threads.
        with threads(torch.get_num_threads(), graphs):
            fed.begin(r)
            state = method.round(fed, state, r)
            found = means(method.measure(fed, state))
        gate.passed(*found)


def experiment_of(case: Order) -> Experiment:
    table: dict[str, Any] = {
        "method": {"name": case["method"], "epochs": case["epochs"], **case["options"]},
        "model": case["model"],
        "optimizer": {"name": "adam", "lr": case["lr"], "weight_decay": case["decay"]},
        "run": {"seed": case["seed"]},
    }
    return resolve(table)


def train_generators(
    experiment: Experiment, fed: InProcess, state: Kinds, steps: int, gate: Gate
) -> Kinds:
    """FedSage+'s exchanges one by one, each scored like a round, then mended graphs."""
    method: Any = experiment.method
    fed.begin(1)
    for number in range(steps):
        method.exchange(fed, state["mending"]["row"], number)
        gate.passed(*means(method.measure(fed, state)))
    fed.ask("mend", expect={})
    return {**state, "mending": {**state["mending"], "done": torch.tensor(True)}}


def graph_of(part: Part, number: int) -> Graph:
    ids = np.array([f"{number}.{row}" for row in range(len(part.y))])
    fields = {name: getattr(part, name) for name in ("x", "edges", "y", "train", "val", "test")}
    return Graph(classes=part.classes, ids=ids, name=f"client {number}", **fields)


def means(replies: Replies) -> tuple[float, float]:
    """Validation and test accuracy, each client counting the same."""
    accuracy = replies["metric"]["accuracy"]
    known = torch.where(accuracy == NO_SCORE, torch.nan, accuracy)
    found = dict(zip(SPLITS, known.nanmean(0).tolist(), strict=True))
    return found["val"], found["test"]


if __name__ == "__main__":
    serve(play, lambda: {"atoll": version("atoll"), "torch": torch.__version__})
