"""Findings of single runs, kept so that an interrupted table goes on and tables share them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np

from atoll.errors import AtollError
from atoll.files import write_json
from atoll.reproduction.studies.base import Findings


def kept(folder: Path, measure: str, config: str, run: Callable[[], Findings]) -> Findings:
    """What was found by the same measure, settings, seed and version of Atoll before; else now."""
    name = sha256(json.dumps([version("atoll"), measure, config]).encode()).hexdigest()
    path = folder / f"{name[:32]}.json"
    if path.is_file():
        return _read(path)
    found = run()
    arrays = {name: array.tolist() for name, array in found.arrays.items()}
    write_json(
        path,
        {
            "config": json.loads(config),
            "best_round": found.best_round,
            "figures": found.figures,
            "arrays": arrays,
        },
    )
    return found


def _read(path: Path) -> Findings:
    try:
        text = json.loads(path.read_text())
        arrays = {name: np.array(values) for name, values in text["arrays"].items()}
        return Findings(text["figures"], arrays, int(text["best_round"]))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise AtollError(f"the kept run '{path}' can't be read ({problem}); delete it.") from None
