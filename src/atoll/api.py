"""The same as the command line, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from atoll.data.base import Dataset
from atoll.data.split import Split
from atoll.experiment.config import (
    Experiment,
    Table,
    data_table,
    merged,
    read_table,
    resolve,
    setting,
)
from atoll.experiment.result import Result
from atoll.experiment.runner import Progress, run_experiment
from atoll.experiment.runner import resume as _resume
from atoll.methods.base import Method
from atoll.models.base import Model
from atoll.optimizers.base import Optimizer
from atoll.partition.base import Partition
from atoll.tasks.base import Task

P = TypeVar("P")


def run(
    recipe: str | Path | None = None,
    *,
    method: str | Method | None = None,
    data: str | Dataset | None = None,
    partition: str | Partition | None = None,
    task: str | Task | None = None,
    model: str | Model | None = None,
    optimizer: str | Optimizer | None = None,
    split: Split | None = None,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    chunk: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run an experiment and return its result.

    Parts are given by registered name or as objects; ``settings`` reaches any other field, as in
    ``{"method.fraction": 0.5, "optimizer.lr": 0.01}``. ``recipe`` is a TOML file that the other
    arguments override. ``progress`` is called with (round, mean validation accuracy).

        result = atoll.run(method="fed-avg", data="cora", clients=10, rounds=100, seed=0)
        print(result.test_accuracy, result.history)
    """
    names: dict[str, Any] = {
        "method": method,
        "data": data,
        "partition": partition,
        "task": task,
        "model": model,
        "optimizer": optimizer,
    }
    flags: Table = {s: {"name": name} for s, name in names.items() if isinstance(name, str)}
    if isinstance(data, str):
        flags = merged(data_table(data), {s: v for s, v in flags.items() if s != "data"})
    numbers = {"rounds": rounds, "seed": seed, "chunk": chunk}
    flags["run"] = {key: value for key, value in numbers.items() if value is not None}
    chosen: list[Table] = [{}]
    for path, value in (settings or {}).items():
        section, key, _ = setting(f"{path}=0")
        chosen.append({section: {key: value}})
    table = merged(read_table(Path(recipe)) if recipe else {}, flags, *chosen)
    if clients is not None and not isinstance(partition, Partition):
        table = merged(table, {"partition": {"clients": clients}})
    return run_experiment(
        _with_objects(resolve(table), names, split, clients),
        None if out is None else Path(out),
        progress,
    )


def _with_objects(
    experiment: Experiment, parts: Mapping[str, Any], split: Split | None, clients: int | None
) -> Experiment:
    """Objects given in place of names take their places."""
    method = _object(parts["method"], experiment.method)
    if not isinstance(parts["method"], Method):
        method = replace(
            method,
            task=_object(parts["task"], method.task),
            model=_object(parts["model"], method.model),
            optimizer=_object(parts["optimizer"], method.optimizer),
        )
    elif any(parts[part] is not None for part in ("task", "model", "optimizer")):
        raise TypeError("a Method object has its own task, model and optimizer: give them there")
    partition = _object(parts["partition"], experiment.partition)
    if clients is not None:
        partition = replace(partition, clients=clients)
    return replace(
        experiment,
        data=_object(parts["data"], experiment.data),
        split=split or experiment.split,
        partition=partition,
        method=method,
    )


def _object(given: Any, otherwise: P) -> P:
    return otherwise if given is None or isinstance(given, str) else given


def resume(run_dir: str | Path, progress: Progress | None = None) -> Result:
    """Continue an interrupted run to the same final bytes as an uninterrupted one."""
    return _resume(Path(run_dir), progress)
