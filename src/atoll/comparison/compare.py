"""From methods and seeds to what they say: the whole way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.comparison.outcome import Comparison, concluded, kept
from atoll.comparison.plan import ALONE, Plan, make_plan, open_folder, read_plan, refuse_below_one
from atoll.comparison.runs import Watch, do_runs
from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.experiment.config import DEFAULT_METHOD, adopted
from atoll.experiment.result import Result, load_result
from atoll.federation.cluster import HERE, Engine
from atoll.files import write_json, written_whole
from atoll.methods.base import methods as methods_by_name
from atoll.plugins import is_address

DEFAULT_METHODS = (ALONE, "fed-avg", DEFAULT_METHOD, "centralized")


def compare_methods(
    methods: Sequence[Any] | Mapping[str, Any],
    choices: Mapping[str, Any],
    seeds: int,
    jobs: int = 1,
    out: Path | None = None,
    watch: Watch | None = None,
    engine: Engine = HERE,
) -> Comparison:
    """Run methods over seeds in one directory, going on with what is there already.

    ``methods`` are names or objects, or either by a label of yours; ``choices`` is what
    :func:`choose` takes besides.
    """
    labelled = _labelled(methods)
    together = list(labelled.values())
    chosen = {label: choose(**choices, method=m, beside=together) for label, m in labelled.items()}
    refuse_below_one("--jobs", jobs)
    plan = make_plan(chosen, seeds)
    return _compared(plan, open_folder(plan, out), jobs, watch, engine)


def resume_comparison(
    out: Path, jobs: int = 1, watch: Watch | None = None, engine: Engine = HERE
) -> Comparison:
    """Continue an interrupted comparison to what it would have found."""
    refuse_below_one("--jobs", jobs)
    return _compared(read_plan(out), out, jobs, watch, engine)


def results_of(found: Comparison) -> list[Result]:
    """Every run of a comparison, read back whole."""
    return [load_result(s.folder(found.out), s.experiment) for s in found.plan.steps()]


def _compared(plan: Plan, out: Path, jobs: int, watch: Watch | None, engine: Engine) -> Comparison:
    steps = list(plan.steps())
    do_runs(steps, out, jobs, watch, engine=engine)
    runs = (kept(s.label, load_result(s.folder(out), s.experiment)) for s in steps)
    found = concluded(plan, runs, out)
    write_json(out / "comparison.json", found.summary())
    for name in ("methods", "sites", "runs"):
        with written_whole(out / f"{name}.csv") as part:
            getattr(found, name).write_csv(part)
    return found


def _labelled(methods: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(methods, str):
        methods = methods.split(",")
    if isinstance(methods, Mapping):
        return dict(methods)
    found: dict[str, Any] = {}
    for method in methods:
        label = _label(method)
        if label in found and (not isinstance(method, str) or is_address(method)):
            raise AtollError(
                f"two methods are called '{label}'; give each a name of its own, as in "
                f"{{'mild': ..., 'strong': ...}}."
            )
        found[label] = method.strip() if isinstance(method, str) else method
    return found


def _label(method: Any) -> str:
    if isinstance(method, str):
        name = method.strip()
        return methods_by_name[name].registered_name if is_address(name) else name
    if isinstance(method, type):
        method = adopted("method", method)
    label: str = method.registered_name
    return label
