"""A run as somebody sees it who only looks: no code of anybody's own is loaded.

A run directory may come from elsewhere and name any file of this machine. Commands that show a run
(audit, report, ...) read it through here; those that run or use a model load what it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.experiment.config import REGISTRIES, Experiment, Table, read_table, resolve
from atoll.experiment.run_dir import refuse_no_run
from atoll.methods.base import Method
from atoll.plugins import addresses_named, is_file
from atoll.registry import Registry


def look_at(run_dir: Path) -> tuple[Experiment, str]:
    """The experiment of a run directory, and the address of its method if that is no part of Atoll.

    What is not Atoll's has the usual component in its place; such a method only its name.
    """
    refuse_no_run(run_dir)
    return looked_at(read_table(run_dir / "config.toml"))


def looked_at(table: Table) -> tuple[Experiment, str]:
    """The same for a config's sections."""
    own = {s: values for s, values in table.items() if not is_outside(s, values)}
    if "task" not in own and "run" in own:
        own["run"] = {k: v for k, v in own["run"].items() if k != "metric"}
    if "method" in own or "method" not in table:
        return resolve(own), ""
    experiment = resolve(own | {"method": {"name": "fed-avg"}})
    address, method = str(table["method"].get("name", "")), experiment.method
    name = f"{Path(address).name}" if is_file(address) else address
    stand_in = type("StandIn", (Method,), {"registered_name": name})
    parts = {"task": method.task, "model": method.model, "optimizer": method.optimizer}
    return replace(experiment, method=stand_in(**parts)), address


def is_outside(section: str, values: Mapping[str, Any]) -> bool:
    """Whether a section names code that is no part of Atoll, a model's factory included."""
    if addresses_named({section: values}):
        return True
    registry: Registry[Any] | None = REGISTRIES.get(section, (None,))[0]
    return registry is not None and bool(registry.offered_by(str(values.get("name"))))
