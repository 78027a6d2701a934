"""OpenFGL's side: its own trainer, on parts that are read from a file.

It runs in an environment of its own, without Atoll. What its published package lacks on present
versions of its dependencies is put in its place from outside, when it is imported; its code is as
published. See `shims` for what that is.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch_geometric.data import Data

from beside.parts import Part, read_parts
from beside.worker import Gate, Order, serve


def shims() -> None:
    """Stand-ins for what can't be had for this torch.

    Its FED-PUB model imports torch_scatter and torch_sparse, of which it uses one sum: torch has
    that itself. Imported after torch_geometric, which would take them for the real ones.
    """
    scatter, sparse = ModuleType("torch_scatter"), ModuleType("torch_sparse")

    def scatter_add(src: Any, index: Any, dim: int = -1, dim_size: int | None = None) -> Any:
        return src.new_zeros(dim_size).index_add_(dim, index, src)

    def refused(*_: Any, **__: Any) -> None:
        raise NotImplementedError("torch_sparse is not here")

    scatter.scatter_add = scatter_add  # type: ignore[attr-defined]
    for name in ("fill_diag", "matmul", "mul", "sum"):
        setattr(sparse, name, refused)
    sparse.SparseTensor = type("SparseTensor", (), {})  # type: ignore[attr-defined]
    sys.modules |= {"torch_scatter": scatter, "torch_sparse": sparse}


def data_of(part: Part) -> Data:
    arrays = {name: torch.from_numpy(getattr(part, name)) for name in ("y", "train", "val", "test")}
    x, edges = torch.from_numpy(part.dense), torch.from_numpy(part.edges)
    masks = {f"{name}_mask": arrays[name] for name in ("train", "val", "test")}
    return Data(x=x, edge_index=edges, y=arrays["y"], num_global_classes=part.classes, **masks)


def hand_over(parts: list[Part], folder: str) -> None:
    """Have its trainer take these parts and their split, instead of cutting a graph of its own."""
    local = [data_of(part) for part in parts]
    # The server's graph is never scored here; it has a shape alone.
    dataset = SimpleNamespace(local_data=local, global_data=local[0].clone(), processed_dir=folder)
    importlib.import_module("openfgl.flcore.trainer").FGLDataset = lambda args: dataset

    def load_split(task: Any) -> None:
        data = task.data
        for name in ("train_mask", "val_mask", "test_mask"):
            setattr(task, name, data[name])
        task.splitted_data = {"data": data} | {
            name: data[name] for name in ("train_mask", "val_mask", "test_mask")
        }
        task.processed_data = task.splitted_data

    task_class = importlib.import_module("openfgl.task.node_cls").NodeClsTask
    task_class.load_train_val_test_split = load_split


def arguments(case: Order, clients: int) -> Any:
    """Its own defaults, and what both sides have in common."""
    args = importlib.import_module("openfgl.config").parser.parse_args([])
    settings = {
        "dataset": ["Cora"],
        "fl_algorithm": case["peer"],
        "num_clients": clients,
        "num_rounds": 10**9,
        "num_epochs": case["epochs"],
        "lr": case["lr"],
        "weight_decay": case["decay"],
        "hid_dim": case["hidden"],
        "model": ["gcn"],
        "metrics": ["accuracy"],
    }
    vars(args).update(settings | case["arguments"])
    return args


def play(path: Path, case: Order, gate: Gate) -> None:
    for seeded in (random.seed, np.random.seed, torch.manual_seed):
        seeded(case["seed"])
    started = time.perf_counter()
    parts = read_parts(path)
    if case["config"]:
        name = f"openfgl.flcore.{case['peer']}.{case['peer']}_config"
        importlib.import_module(name).config.update(case["config"])
    with tempfile.TemporaryDirectory() as folder:
        hand_over(parts, folder)
        trainer_class = importlib.import_module("openfgl.flcore.trainer").FGLTrainer
        trainer = trainer_class(arguments(case, len(parts)))
        averaging_begins = begun(trainer, case["start"])
        scores = remembered(trainer)
        its_own, done = trainer.evaluate, itertools.count(1)

        def evaluate() -> None:
            its_own()
            if next(done) == case["generator"]:
                averaging_begins()
            gate.passed(*scores())

        trainer.evaluate = evaluate
        gate.open(time.perf_counter() - started)
        trainer.train()


def begun(trainer: Any, start: str) -> Callable[[], None]:
    """FedSage+'s classifiers begun as ``start`` says; what to do after the last generator round.

    ``own``: as published, clients begin with weights of their own and train them beside the
    generators, and the first that they average are these. ``alike``: the same, but all begin with
    the server's weights. ``anew``: as published up to there, but what they then get is no average:
    it is the server's weights, which nobody has trained.
    """
    if start == "own":
        return lambda: None
    classifier = trainer.server.task.model.classifier
    first = copy.deepcopy(classifier.state_dict())
    if start == "anew":
        return lambda: classifier.load_state_dict(first)
    for client in trainer.clients:
        client.task.model.classifier.load_state_dict(first)
    return lambda: None


def remembered(trainer: Any) -> Any:
    """What its clients' last evaluations gave, as means in which each client counts the same.

    Its own figure weighs clients by their nodes.
    """
    last: dict[int, tuple[float, float]] = {}

    def listening(client: int, task: Any) -> None:
        its_own = task.evaluate

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            result = its_own(*args, **kwargs)
            last[client] = (result["accuracy_val"], result["accuracy_test"])
            return result

        task.evaluate = evaluate

    for number, client in enumerate(trainer.clients):
        listening(number, client.task)

    def means() -> list[float]:
        return [float(mean) for mean in np.nanmean(list(last.values()), axis=0)]

    return means


def versions() -> dict[str, str]:
    try:
        own = version("openfgl-lib")
    except PackageNotFoundError:
        own = "a checkout"
    others = {name: version(name) for name in ("torch", "torch_geometric")}
    return {"openfgl": own, **others}


if __name__ == "__main__":
    shims()
    serve(play, versions)
