"""A run's directory: where it is, what stands in it from the beginning, when it is complete."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from atoll.errors import AtollError
from atoll.experiment.config import Experiment, describe
from atoll.files import write_bytes, write_json, write_toml
from atoll.kernels import in_use
from atoll.plugins import addresses_named, is_file, source_of

CLIENTS = "clients.json"
_VERSIONED = ("torch", "numpy", "scipy", "pymetis", "safetensors", "polars")


def new_run_dir(experiment: Experiment, out: Path | None) -> Path:
    """An empty directory: the one given, or a fresh one under ``runs/``."""
    if out is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        stem = f"{stamp}-{experiment.method.registered_name}-{experiment.data.registered_name}"
        names = (f"{stem}-{n}" if n else stem for n in range(10_000))
        out = next(path for path in map(Path("runs").joinpath, names) if not path.exists())
    elif out.exists() and not out.is_dir():
        raise AtollError(f"'{out}' is a file; name a new directory with --out.")
    elif out.exists() and any(out.iterdir()):
        raise AtollError(
            f"'{out}' exists and is not empty; choose another --out, or continue it with: atoll "
            f"resume {out}"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise AtollError(
            f"'{out}' can't be made ({problem.strerror}); choose another --out."
        ) from None
    return out


def refuse_no_run(folder: Path) -> None:
    """A run directory has a config; a folder of several runs has them further down."""
    if (folder / "config.toml").is_file():
        return
    runs = sorted(
        path.parent for form in ("*", "*/*") for path in folder.glob(f"{form}/config.toml")
    )
    remedy = (
        f"name one of the {len(runs)} runs in it, such as {runs[0]}" if runs else "check the path"
    )
    raise AtollError(f"'{folder}' is no run directory: it has no config.toml; {remedy}.")


def environment() -> dict[str, Any]:
    """What the result depends on besides the config. Nothing here names the machine or its user."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "atoll": version("atoll"),
        **{name: version(name) for name in _VERSIONED},
        # Compiled kernels round in another order than torch.
        "kernels": f"numba {version('numba')}" if in_use() else "none",
    }


def store_setup(
    run_dir: Path, experiment: Experiment, threads: int, clients: Sequence[str] = ()
) -> None:
    """The experiment, what it ran on, its clients' names."""
    write_toml(run_dir / "config.toml", describe(experiment))
    facts = {"seed": experiment.run.seed, "threads": threads}
    write_toml(run_dir / "environment.toml", environment() | facts)
    if clients:
        write_json(run_dir / CLIENTS, list(clients))
    for address in filter(is_file, addresses_named(describe(experiment))):
        path, source = Path(address.rpartition(":")[0]), source_of(address)
        kept = run_dir / "plug-ins" / path.name
        if kept.exists() and kept.read_bytes() != source:  # two files of one name
            kept = kept.with_name(f"{hashlib.sha256(source).hexdigest()[:12]}-{path.name}")
        write_bytes(kept, source)


def store_fitted(run_dir: Path, experiment: Experiment, train: np.ndarray | None) -> None:
    """What a simulation has fitted to training nodes; sites that are real keep their own."""
    fitted = experiment.data.preprocessing(train)
    if fitted is not None:
        write_json(run_dir / "preprocessing.json", fitted)


def is_complete(run_dir: Path) -> bool:
    return (run_dir / "summary.json").is_file()
