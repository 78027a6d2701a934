"""The one way from flags or Python arguments to an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.data.as_dataset import as_dataset
from atoll.data.base import datasets
from atoll.data.split import Split
from atoll.experiment.config import Experiment, Table, merged, read_table, resolve, section_and_key

# A Method object carries these.
_OF_METHOD = ("task", "model", "optimizer")


def choose(
    *,
    recipe: str | Path | None = None,
    method: Any = None,
    data: Any = None,
    partition: Any = None,
    task: Any = None,
    model: Any = None,
    optimizer: Any = None,
    split: Split | None = None,
    owner: str | None = None,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    chunk: int | None = None,
    metric: str | None = None,
    settings: Iterable[tuple[str, Any]] = (),
) -> Experiment:
    """The experiment that a recipe, choices and settings describe; the later of them win.

    Parts are registered names, or objects, which take the place of whatever a name would have
    made. ``settings`` are pairs as ``("method.mu", 0.1)``.
    """
    if data is not None and not isinstance(data, str):
        data, owner_of_object, owner = as_dataset(data, owner), owner, None
    else:
        owner_of_object = None
    parts = {
        "data": data,
        "partition": partition,
        "task": task,
        "model": model,
        "optimizer": optimizer,
        "method": method,
        "split": split,
    }
    names = {section: part for section, part in parts.items() if isinstance(part, str)}
    objects = {s: p for s, p in parts.items() if p is not None and not isinstance(p, str)}
    options = [(*section_and_key(path), value) for path, value in settings]
    if owner is not None:
        options.insert(0, ("data", "owner", owner))
    _refuse_options_of_objects(objects, {*names, *(section for section, _, _ in options)})
    numbers: dict[str, Any] = {"rounds": rounds, "seed": seed, "chunk": chunk}
    numbers["metric"] = None if metric is None else spelled(metric)
    tables: list[Mapping[str, Mapping[str, Any]]] = [
        read_table(Path(recipe)) if recipe is not None else {},
        _data_table(names.pop("data")) if "data" in names else {},
        {} if owner is owner_of_object is None else {"partition": {"name": "natural"}},
        {section: {"name": name} for section, name in names.items()},
        {} if clients is None or "partition" in objects else {"partition": {"clients": clients}},
        {"run": {key: value for key, value in numbers.items() if value is not None}},
        *({section: {key: value}} for section, key, value in options),
    ]
    if clients is not None and "partition" in objects:
        objects["partition"] = replace(objects["partition"], clients=clients)
    return _with_objects(resolve(merged(*tables)), objects)


def spelled(metric: str) -> str:
    """A metric's name as it is in configs: ``PR-AUC`` and ``log loss`` are understood."""
    name = metric.strip().lower().replace("-", "_").replace(" ", "_")
    return "loss" if name == "log_loss" else name


def _data_table(choice: str) -> Table:
    """A dataset by name, or a folder of parties, each with its own nodes and split."""
    if "/" not in choice and (choice in set(datasets) or not Path(choice).is_dir()):
        return {"data": {"name": choice}}
    return {
        "data": {"name": "parties", "folder": choice},
        "partition": {"name": "natural"},
        "split": {"kind": "public"},
    }


def _refuse_options_of_objects(objects: Mapping[str, Any], chosen: Iterable[str]) -> None:
    """An object is complete: nothing of it is chosen from outside."""
    if "method" in objects and any(section in _OF_METHOD for section in (*chosen, *objects)):
        raise TypeError("a Method object has its own task, model and optimizer: give them there")
    for section in chosen:
        if section in objects:
            raise TypeError(f"{section} is given as an object: choose its options there")


def _with_objects(experiment: Experiment, objects: Mapping[str, Any]) -> Experiment:
    """Objects given in place of names take their places."""
    of_method = {name: part for name, part in objects.items() if name in _OF_METHOD}
    own = {name: part for name, part in objects.items() if name not in _OF_METHOD}
    if of_method:
        own["method"] = replace(experiment.method, **of_method)
    return replace(experiment, **own)
