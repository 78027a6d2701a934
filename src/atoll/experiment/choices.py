"""The one way from flags or Python arguments to an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.data.as_dataset import as_dataset
from atoll.data.base import datasets
from atoll.data.split import Split
from atoll.data.stress import IN_DATA
from atoll.errors import AtollError
from atoll.experiment.config import (
    DEFAULT_METHOD,
    Experiment,
    Table,
    adopted,
    merged,
    read_recipe,
    resolve,
    section_and_key,
)
from atoll.methods.base import Method, methods
from atoll.models.base import Model
from atoll.models.module import Module
from atoll.one_file import under_way
from atoll.plugins import is_address, origin

# A Method object carries these.
_OF_METHOD = ("task", "model", "optimizer")


def choose(
    *,
    recipe: str | Path | None = None,
    table: Table | None = None,
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
    paper: Callable[[str, str | None], Table] | None = None,
    beside: Sequence[Any] = (),
) -> Experiment:
    """The experiment that a recipe, choices and settings describe; the later of them win.

    ``table`` is what a recipe's file would hold, where there is no file.
    Parts are registered names, or objects, which take the place of whatever a name would have
    made, or classes of your own; a model is also the class of any torch module. ``settings`` are
    pairs as ``("method.mu", 0.1)``. ``paper`` gives the settings of a method's paper for a dataset,
    over which all else is laid. ``beside`` are the methods that the same clients are used for, so
    that they are cut in a way that suits all.
    """
    if under_way():
        raise AtollError(
            "it runs an experiment while it is only being read; put that below: "
            "if __name__ == '__main__'"
        )
    if callable(model) and not (isinstance(model, type) and issubclass(model, Model)):
        model = Module(factory=model)  # a torch module's class, or a function that makes one
    if data is not None and not isinstance(data, str | type):
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
    classes = {s: adopted(s, p) for s, p in parts.items() if isinstance(p, type)}
    parts = {s: p for s, p in parts.items() if s not in classes}
    typed = {s: cls for s, cls in classes.items() if origin(cls) is None}
    for section, part in parts.items():
        if part is not None and not isinstance(part, str) and section != "split":
            adopted(section, type(part))
    names = {section: part for section, part in parts.items() if isinstance(part, str)}
    objects = {s: p for s, p in parts.items() if p is not None and not isinstance(p, str)}
    options = [(*_section_and_key(path), value) for path, value in settings]
    if owner is not None:
        options.insert(0, ("data", "owner", owner))
    _refuse_options_of_objects(objects, {*names, *classes, *(section for section, _, _ in options)})
    numbers: dict[str, Any] = {"rounds": rounds, "seed": seed, "chunk": chunk}
    numbers["metric"] = None if metric is None else spelled(metric)
    tables: list[Mapping[str, Mapping[str, Any]]] = [
        read_recipe(Path(recipe)) if recipe is not None else table or {},
        data_table(names.pop("data")) if "data" in names else {},
        {} if owner is owner_of_object is None else {"partition": {"name": "natural"}},
        {section: {"name": name} for section, name in names.items()},
        {section: _named(cls) for section, cls in classes.items()},
        {} if clients is None or "partition" in objects else {"partition": {"clients": clients}},
        {"run": {key: value for key, value in numbers.items() if value is not None}},
        *({section: {key: value}} for section, key, value in options),
    ]
    if clients is not None and "partition" in objects:
        objects["partition"] = replace(objects["partition"], clients=clients)
    described = merged(*tables)
    if paper is not None:
        if "method" in {**objects, **typed}:
            raise TypeError("a Method object has its own settings: name the method for its paper's")
        of_data = described.get("data", {}).get("name")
        known = objects["data"].registered_name if "data" in objects else of_data
        described = merged(paper(_method_of(described), known), *tables)
    if "name" not in described.get("partition", {}) and "partition" not in objects:
        own = {"method": _method_of(described), **typed, **objects}["method"]
        described = merged(_usual_partition([own, *beside]), described)
    return _with_objects(resolve(described, typed), objects)


def _section_and_key(path: str) -> tuple[str, str]:
    """A setting's section and key; an object of data knows nothing of stress."""
    section, key = section_and_key(path)
    return ("stress", IN_DATA[key]) if section == "data" and key in IN_DATA else (section, key)


def _method_of(described: Table) -> str:
    return str(described.get("method", {}).get("name", DEFAULT_METHOD))


def _usual_partition(together: Sequence[str | Method | type[Method]]) -> Table:
    """The cut that one of the methods needs, where nobody has chosen any."""
    for method in together:
        usual = (methods[method] if isinstance(method, str) else method).usual_partition
        if usual:
            return {"partition": {"name": usual}}
    return {}


def _named(cls: type) -> dict[str, str]:
    """A class of the user's own as a config has it."""
    where = origin(cls)
    if where is None:
        return {"name": cls.registered_name}  # type: ignore[attr-defined]
    return {"name": where.name, "sha256": where.sha256}


def spelled(metric: str) -> str:
    """A metric's name as it is in configs: ``PR-AUC`` and ``log loss`` are understood."""
    name = metric.strip().lower().replace("-", "_").replace(" ", "_")
    return "loss" if name == "log_loss" else name


def data_table(choice: str) -> Table:
    """A dataset by name, or a folder of parties, each with its own nodes and split."""
    if is_address(choice):
        return {"data": {"name": choice}}
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
