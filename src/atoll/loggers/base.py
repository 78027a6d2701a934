"""What loggers share: names of scalars, the files of a run, and the libraries they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from atoll.errors import AtollError
from atoll.experiment.callbacks import Callback, Told
from atoll.experiment.config import Table
from atoll.registry import Registry

loggers: Registry[Logger] = Registry("logger", "atoll.loggers")
# Small files without models: a model says more of a client's data than its scores do.
_FILES = ("config.toml", "environment.toml", "summary.json", "history.parquet", "rounds.parquet")


class Logger(Callback):
    """A callback of another project's library, which is loaded when the logger is made."""

    registered_name: ClassVar[str]
    library: ClassVar[str]

    def __init__(self) -> None:
        self.module = required(self.library, self.registered_name)


def required(library: str, extra: str) -> ModuleType:
    """A library of an extra, loaded now, so that a run does not find it missing at its end."""
    try:
        return import_module(library)
    except ImportError:
        raise AtollError(
            f"--log {extra} needs a library that is not installed; install it with: "
            f"pip install 'atoll[{extra}]'"
        ) from None


def callbacks_of(given: Iterable[str | Callback]) -> list[Callback]:
    """Callbacks as they are, and loggers by name, each once."""
    found: list[Callback] = []
    for one in dict.fromkeys(given):
        found.append(loggers[one]() if isinstance(one, str) else one)
    return found


def scalars(told: Told) -> Iterator[tuple[str, float]]:
    """``val_accuracy/mean``, ``val_accuracy/client 3`` and what the round cost, by name."""
    for name, value in told.means.items():
        yield f"{name}/mean", value
    for client, scores in told.clients.items():
        for name, value in scores.items():
            yield f"{name}/client {client}", value
    yield "round/seconds", told.seconds
    yield "round/bytes_up", float(told.bytes_up)
    yield "round/bytes_down", float(told.bytes_down)


def files_of(run_dir: Path) -> list[Path]:
    """What is kept as artifacts."""
    return [run_dir / name for name in _FILES if (run_dir / name).is_file()]


def flattened(table: Table) -> dict[str, str]:
    """Settings by path, as text."""
    return {f"{s}.{k}": str(v) for s, values in table.items() for k, v in values.items()}
