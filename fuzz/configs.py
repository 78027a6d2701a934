"""Config files: an experiment or a sentence, and nothing of what they name is imported.

python fuzz/configs.py [--count 1000000] [--seed 0] [--only MUTANT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import tomli_w

from atoll.deploy.plan import plan_of
from atoll.errors import AtollError
from atoll.experiment.config import describe, read_table, resolve
from atoll.plugins import admitting
from harness import Failure, Target, main

_RECIPE = {
    "data": {"name": "digits"},
    "partition": {"name": "metis", "clients": 3},
    "method": {"name": "fed-prox", "mu": 0.5, "epochs": 2},
    "model": {"name": "gcn", "hidden": 16},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "split": {"kind": "random", "train": 0.3, "val": 0.3, "test": 0.4},
    "run": {"rounds": 3, "seed": 1, "metric": "accuracy"},
}
_NAMED = {"method": {"name": "./mine.py:FedMine"}, "model": {"name": "package.module:Net"}}
_PLAN = {
    "run": "fed-prox-01",
    "engine": "nvflare",
    "sites": ["a", "b"],
    "terms": {"deadline": 5.0, "quorum": 1, "patience": 60.0},
}


def make(folder: Path) -> Target:
    whole = describe(resolve(_RECIPE))
    seeds = [tomli_w.dumps(t).encode() for t in (_RECIPE, whole, _NAMED, _PLAN)]
    path = folder / "config.toml"
    experiment = resolve(_RECIPE)
    known: list[set[str]] = []

    def attempt(content: bytes) -> bool:
        path.write_bytes(content)
        if not known:
            known.append(set(sys.modules))
        try:
            with admitting(()):
                table = read_table(path)
                if "run" in table and "sites" in table:
                    plan_of(_checked(table), experiment)
                else:
                    resolve(table)
        except AtollError:
            return False
        finally:
            new = {m for m in set(sys.modules) - known[0] if m.startswith(("atoll_plugin", "pack"))}
            if new:
                raise Failure(f"imported {min(new)}")
        return True

    return Target(seeds, attempt)


def _checked(table: dict) -> dict:
    """A plan as :func:`read_plan` takes it: with all its keys, or refused."""
    for key in ("run", "engine", "sites", "terms"):
        if key not in table:
            raise AtollError(f"no {key}")
    return table


if __name__ == "__main__":
    main(make, __file__, __doc__)
