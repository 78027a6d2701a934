"""From names and plain values to typed objects, and back."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from atoll.data.base import Dataset, datasets
from atoll.data.split import Split
from atoll.errors import AtollError, unknown
from atoll.methods.base import Method, methods
from atoll.models.base import models
from atoll.optimizers.base import optimizers
from atoll.options import check_options, option
from atoll.partition.base import Partition, partitions
from atoll.registry import Registry
from atoll.tasks.base import tasks

DEFAULT_METHOD = "fed-pub"
_REGISTRIES: dict[str, tuple[Registry[Any], str]] = {
    "data": (datasets, "digits"),
    "partition": (partitions, "metis"),
    "task": (tasks, "nodes"),
    "model": (models, "gcn"),
    "optimizer": (optimizers, "adam"),
    "method": (methods, DEFAULT_METHOD),
}
SECTIONS = ("data", "split", "partition", "task", "model", "optimizer", "method", "run")

Table = dict[str, dict[str, Any]]
Metric = Literal[
    "auto",
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "f1",
    "roc_auc",
    "pr_auc",
    "recall_at_precision",
    "loss",
    "auc",
]
C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How an experiment is run: its length, its seed, and what it may use of the machine.

    ``chunk`` is the number of clients trained at once (0: all); ``threads`` that of torch (0: what
    suits the graph). Scores are taken every ``score_every`` rounds, and after the last one.
    ``whole_graph`` also scores each client's model on the whole graph, which only a simulation has.
    ``metric`` chooses the best round and leads tables; ``auto`` is the task's own, or ``pr_auc``
    where one of two classes is rare.
    """

    rounds: int = option(100, at_least=1)
    seed: int = option(0, at_least=0)
    chunk: int = option(0, at_least=0)
    dtype: Literal["float32", "float64"] = "float32"
    threads: int = option(0, at_least=0)
    checkpoint_seconds: float = option(30.0, at_least=0)
    whole_graph: bool = False
    score_every: int = option(1, at_least=1)
    metric: Metric = "auto"

    def __post_init__(self) -> None:
        check_options("run", self)

    def is_scored(self, round: int) -> bool:
        return round % self.score_every == 0 or round == self.rounds


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that determines a result. The method carries its task, model and optimizer."""

    data: Dataset
    partition: Partition
    method: Method
    split: Split = field(default_factory=Split)
    run: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        task, metric = self.method.task, self.run.metric
        known = (task.metric, "loss", *task.extended)
        if metric != "auto" and metric not in known:
            raise AtollError(
                f"run.metric is '{metric}', which the task '{task.registered_name}' does not have; "
                f"choose one of auto, {', '.join(known)}."
            )


def read_table(path: Path) -> Table:
    """A TOML file's sections."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise AtollError(f"there is no file '{path}'; check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise AtollError(f"'{path}' can't be read as TOML ({problem}).") from problem


def setting(text: str) -> tuple[str, Any]:
    """``method.mu=0.1`` as (path, value); values are written as in TOML, or bare text."""
    path, equals, value = text.partition("=")
    if not equals:
        raise _no_setting(text)
    section_and_key(path)
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


def section_and_key(path: str) -> tuple[str, str]:
    """``method.mu`` as (section, key)."""
    section, dot, key = path.strip().partition(".")
    if not (section and dot and key):
        raise _no_setting(path)
    return section, key


def _no_setting(text: str) -> AtollError:
    return AtollError(f"'{text}' is no setting; write it as section.key=value.")


def merged(*tables: Mapping[str, Mapping[str, Any]]) -> Table:
    """Sections laid over each other; later ones win. A new name drops the old one's options."""
    result: Table = {}
    for table in tables:
        for section, values in table.items():
            if not isinstance(values, Mapping):
                raise AtollError(
                    f"'{section}' stands alone in the config; put it into a section, e.g. "
                    f"[run] {section} = ..."
                )
            old = result.get(section, {})
            changed = "name" in values and "name" in old and values["name"] != old["name"]
            result[section] = ({} if changed else old) | dict(values)
    return result


def resolve(table: Mapping[str, Mapping[str, Any]]) -> Experiment:
    """The typed experiment a table describes. Unknown names and keys are errors."""
    for section in table:
        if section not in SECTIONS:
            raise unknown("config section", section, SECTIONS)

    def chosen(section: str) -> Any:
        registry, default = _REGISTRIES[section]
        if section in ("model", "optimizer"):
            default = _usual(chosen("method"), section).registered_name
        return registry[_text(section, table.get(section, {}).get("name", default))]

    def component(section: str, **given: Any) -> Any:
        values = {k: v for k, v in table.get(section, {}).items() if k != "name"}
        cls = chosen(section)
        if section in ("model", "optimizer"):
            usual = _usual(chosen("method"), section)
            if type(usual) is cls:
                values = {f.name: getattr(usual, f.name) for f in fields(usual)} | values
        return build(cls, section, values, given)

    return Experiment(
        data=component("data"),
        split=build(Split, "split", table.get("split", {})),
        partition=component("partition"),
        method=component(
            "method",
            task=component("task"),
            model=component("model"),
            optimizer=component("optimizer"),
        ),
        run=build(Run, "run", table.get("run", {})),
    )


def _usual(method: type[Method], section: str) -> Any:
    """The model or optimizer that a method has where none is given."""
    usual = next(f.default_factory for f in fields(method) if f.name == section)
    assert callable(usual)
    return usual()


def describe(experiment: Experiment) -> Table:
    """The inverse of :func:`resolve`, with every default spelled out."""
    method = experiment.method
    parts = {
        "data": experiment.data,
        "split": experiment.split,
        "partition": experiment.partition,
        "task": method.task,
        "model": method.model,
        "optimizer": method.optimizer,
        "method": method,
        "run": experiment.run,
    }
    return {section: _plain(part) for section, part in parts.items()}


def _plain(part: Any) -> dict[str, Any]:
    name = getattr(type(part), "registered_name", None)
    values = {} if name is None else {"name": name}
    for f in fields(part):
        value = getattr(part, f.name)
        if f.name in ("task", "model", "optimizer"):
            continue
        if isinstance(value, Method):
            value = _plain(value)
        values[f.name] = address(value) if callable(value) else value
    return values


def address(function: Callable[..., Any]) -> str:
    """Where a function can be imported from; functions without a name of their own say so."""
    return f"{function.__module__}:{function.__qualname__}"


def build(
    cls: type[C], section: str, values: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> C:
    """An instance of a dataclass from plain values, each checked against its field's type."""
    given = given or {}
    hints = get_type_hints(cls)
    known = [f.name for f in fields(cls) if f.name not in given]  # type: ignore[arg-type]
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise unknown("config key", f"{section}.{key}", [f"{section}.{k}" for k in known])
        checked[key] = _checked(f"{section}.{key}", value, hints[key])
    return cls(**checked, **given)


def _checked(where: str, value: Any, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            raise unknown(f"value of {where}:", str(value), [str(v) for v in get_args(hint)])
        return value
    if origin in (Union, UnionType):
        for option in get_args(hint):
            try:
                return _checked(where, value, option)
            except AtollError:
                continue
        raise _wrong(where, value, hint)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(where, value, hint)
        return tuple(_checked(where, v, get_args(hint)[0]) for v in value)
    if hint is Method and isinstance(value, str | Mapping):
        return _inner_method(where, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(hint, type) and _exactly(value, hint)):
        return value
    if not isinstance(hint, type) and callable(value):
        return value
    raise _wrong(where, value, hint)


def _inner_method(where: str, value: str | Mapping[str, Any]) -> Method:
    """A method within a method: its name, or a table of its name and options."""
    options = {"name": value} if isinstance(value, str) else dict(value)
    if "name" not in options:
        raise AtollError(
            f"{where} does not say which method; give it a name, as in {{ name = ... }}."
        )
    cls = methods[_text(where, options.pop("name"))]
    return build(cls, where, options)


def _exactly(value: Any, hint: type) -> bool:
    return isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)


def _wrong(where: str, value: Any, hint: Any) -> AtollError:
    wanted = hint.__name__ if isinstance(hint, type) else str(hint)
    return AtollError(f"{where} is {value!r}, a {type(value).__name__}; it must be {wanted}.")


def _text(section: str, name: Any) -> str:
    if not isinstance(name, str):
        raise _wrong(f"{section}.name", name, str)
    return name
