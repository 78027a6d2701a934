"""From names and plain values to typed objects, and back."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from atoll.data.base import Dataset, datasets
from atoll.data.split import Split
from atoll.data.stress import Stress, stress_apart
from atoll.device import CPU, refuse_no_device
from atoll.errors import AtollError, unknown
from atoll.experiment.fields import build, refuse_no_section
from atoll.experiment.outside import (
    address,
    find_class,
    outside,
    with_code,
    with_factory,
)
from atoll.methods.base import Method, methods
from atoll.models.base import models
from atoll.models.gcn import GCN
from atoll.optimizers.base import optimizers
from atoll.options import check_options, option
from atoll.partition.base import Partition, partitions
from atoll.plugins import absolute, is_address, origin
from atoll.privacy.protections import Privacy
from atoll.registry import Registry
from atoll.tasks.base import tasks

DEFAULT_METHOD = "fed-pub"
REGISTRIES: dict[str, tuple[Registry[Any], str]] = {
    "data": (datasets, "digits"),
    "partition": (partitions, "metis"),
    "task": (tasks, "nodes"),
    "model": (models, "gcn"),
    "optimizer": (optimizers, "adam"),
    "method": (methods, DEFAULT_METHOD),
}
SECTIONS = (
    "data",
    "stress",
    "split",
    "partition",
    "task",
    "model",
    "optimizer",
    "method",
    "run",
    "privacy",
)

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


@dataclass(frozen=True, kw_only=True)
class Run:
    """How an experiment is run: its length, its seed, and what it may use of the machine.

    ``cut_seed`` seeds who gets which nodes, where that should stay while ``seed`` changes.
    ``chunk`` is the number of clients trained at once (0: all, but 1,000 where there are more than
    10,000); ``threads`` that of torch (0: what suits the graph). Scores are taken every
    ``score_every`` rounds, and after the last one.
    ``whole_graph`` also scores each client's model on the whole graph, which only a simulation has.
    ``keep_messages`` keeps every message in the run directory, for ``atoll attack``.
    ``device`` is any that torch has (``cuda``, ``cuda:1``); a simulation is computed there.
    ``cluster_scores`` also scores the best models' embeddings by k-means, as ``nmi`` and ``ari``,
    which only a simulation has.
    ``metric`` chooses the best round and leads tables; ``auto`` is the task's own, or ``pr_auc``
    where one of two classes is rare.
    """

    rounds: int = option(100, at_least=1)
    seed: int = option(0, at_least=0)
    cut_seed: int = option(-1, at_least=-1, why="-1 means the run's seed")
    chunk: int = option(0, at_least=0)
    dtype: Literal["float32", "float64"] = "float32"
    threads: int = option(0, at_least=0)
    checkpoint_seconds: float = option(30.0, at_least=0)
    whole_graph: bool = False
    cluster_scores: bool = False
    score_every: int = option(1, at_least=1)
    keep_messages: bool = False
    metric: Metric = "auto"
    device: str = CPU

    def __post_init__(self) -> None:
        check_options("run", self)
        refuse_no_device(self.device)

    @property
    def seed_of_cut(self) -> int:
        return self.seed if self.cut_seed < 0 else self.cut_seed

    def is_scored(self, round: int) -> bool:
        return round % self.score_every == 0 or round == self.rounds


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that determines a result. The method carries its task, model and optimizer."""

    data: Dataset
    partition: Partition
    method: Method
    split: Split = field(default_factory=Split)
    stress: Stress = field(default_factory=Stress)
    run: Run = field(default_factory=Run)
    privacy: Privacy = field(default_factory=Privacy)

    def __post_init__(self) -> None:
        if self.run.cluster_scores and not self.method.scores_plainly:
            raise AtollError(
                f"run.cluster_scores is for embeddings, and {self.method.registered_name} leaves "
                f"no model that could be applied to nodes by itself; set run.cluster_scores=false."
            )
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


def read_recipe(path: Path) -> Table:
    """A TOML file's sections; addresses of files in it are relative to its folder."""
    table = read_table(path)
    for section, values in table.items():
        refuse_no_section(section, values)
        for key in ("name", "factory"):
            if is_address(values.get(key)):
                values[key] = absolute(values[key], path.parent.absolute())
    return table


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
    for table in map(stress_apart, tables):
        for section, values in table.items():
            if not isinstance(values, Mapping):
                raise AtollError(
                    f"'{section}' stands alone in the config; put it into a section, e.g. "
                    f"[run] {section} = ..."
                )
            old, new = result.get(section, {}), _in_full(section, values)
            changed = "name" in new and "name" in old and new["name"] != old["name"]
            result[section] = ({} if changed else old) | new
    return result


def adopted(section: str, cls: type[Any]) -> type[Any]:
    """A class as a component of a section: a dataclass of the right kind with a name."""
    if hasattr(cls, "registered_name") and cls.__module__.startswith("atoll."):
        return cls
    found: type[Any] = REGISTRIES[section][0].adopted(cls)
    return found


def _in_full(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A section with the full name of its component where a short one is given."""
    full = dict(values)
    if section in REGISTRIES and isinstance(values.get("name"), str):
        full["name"] = REGISTRIES[section][0].full_name(values["name"])
    if is_address(values.get("factory")):
        full["factory"] = absolute(values["factory"])
    return full


def resolve(
    table: Mapping[str, Mapping[str, Any]], typed: Mapping[str, type[Any]] | None = None
) -> Experiment:
    """The typed experiment a table describes. Unknown names and keys are errors.

    ``typed`` are classes by section that nobody else can find: typed into a notebook, say.
    """
    for section in table:
        if section not in SECTIONS:
            raise unknown("config section", section, SECTIONS)
        refuse_no_section(section, table[section])
    table, typed = with_factory(stress_apart(table)), typed or {}

    def chosen(section: str) -> Any:
        if section in typed:
            return typed[section]
        registry, default = REGISTRIES[section]
        if section in ("model", "optimizer"):
            usual = _usual(chosen("method"), section)
            default = usual.registered_name
            if section == "model" and type(usual) is GCN:
                default = chosen("task").usual_model or default
        return find_class(registry, section, {"name": default} | dict(table.get(section, {})))

    def component(section: str, **given: Any) -> Any:
        values = {k: v for k, v in table.get(section, {}).items() if k != "name"}
        cls = chosen(section)
        if origin(cls) is not None or "factory" in values:
            values = with_code(values)
        if section in ("model", "optimizer"):
            usual = _usual(chosen("method"), section)
            if type(usual) is cls:
                values = {f.name: getattr(usual, f.name) for f in fields(usual)} | values
        return build(cls, section, values, given)

    return Experiment(
        data=component("data"),
        split=build(Split, "split", table.get("split", {})),
        stress=build(Stress, "stress", table.get("stress", {})),
        partition=component("partition"),
        method=component(
            "method",
            task=component("task"),
            model=component("model"),
            optimizer=component("optimizer"),
        ),
        run=build(Run, "run", table.get("run", {})),
        privacy=build(Privacy, "privacy", table.get("privacy", {})),
    )


def _usual(method: type[Method], section: str) -> Any:
    """The model or optimizer that a method has where none is given."""
    usual = next(f.default_factory for f in fields(method) if f.name == section)
    assert callable(usual)
    return usual()


def describe(experiment: Experiment) -> Table:
    """The inverse of :func:`resolve`, with every default spelled out.

    Protections and stress have a section where there are any.
    """
    method = experiment.method
    parts = {
        "data": experiment.data,
        **({"stress": experiment.stress} if experiment.stress.rates else {}),
        "split": experiment.split,
        "partition": experiment.partition,
        "task": method.task,
        "model": method.model,
        "optimizer": method.optimizer,
        "method": method,
        "run": experiment.run,
    }
    if experiment.privacy != Privacy():
        parts["privacy"] = experiment.privacy
    return {section: _plain(part) for section, part in parts.items()}


def _plain(part: Any) -> dict[str, Any]:
    name = getattr(type(part), "registered_name", None)
    values = {} if name is None else {"name": name}
    beyond = outside(part) if name is not None else None
    if beyond is not None and beyond.sha256:
        values["sha256"] = beyond.sha256
    if beyond is not None and not hasattr(part, "factory"):
        values["name"] = beyond.name
    for f in fields(part):
        value = getattr(part, f.name)
        if f.name in ("task", "model", "optimizer"):
            continue
        if isinstance(value, Method):
            value = _plain(value)
        if f.name == "factory":
            value = address(value) if callable(value) else absolute(value)
        values[f.name] = address(value) if callable(value) else value
    return values
