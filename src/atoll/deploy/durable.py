"""A site's private state on disk, so that neither a restart nor a rollback loses it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.files import write_json
from atoll.tree import Tree

log = logging.getLogger("atoll")
# The coordinator falls back by two rounds at most: one torn checkpoint, one unfinished round. A
# site goes back one round more, and no further.
MOST_ROUNDS_BACK = 3
_KEPT = MOST_ROUNDS_BACK + 1


class Durable:
    """The folder of one run at one site: what the run is, its anchors, its last states.

    A state's file is named after the round it belongs to and rewritten, atomically, after every
    step of that round. "The state after round r" is therefore the newest file
    of a round up to r, also for a site that sat some rounds out.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep_facts(self, name: str, facts: Mapping[str, Any]) -> None:
        write_json(self.folder / f"{name}.json", dict(facts))

    def facts(self, name: str) -> dict[str, Any] | None:
        try:
            facts = json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return facts if isinstance(facts, dict) else None

    def save(self, round: int, attempt: int, state: Tree) -> None:
        write_tree(self._file(round), state, {"round": round, "attempt": attempt})
        for old in self._files()[:-_KEPT]:
            old.unlink()

    def newest(self) -> tuple[Tree, int, int] | None:
        """The newest readable state with its round and attempt."""
        return self._newest(self._files())

    def rolled_back(self, before: int) -> Tree | None:
        """The state before a round; what was done in that round or later is forgotten."""
        for file in self._files():
            if _round(file) >= before:
                file.unlink()
        found = self._newest(self._files())
        return None if found is None else found[0]

    def _newest(self, files: list[Path]) -> tuple[Tree, int, int] | None:
        for file in reversed(files):
            try:
                tree, facts = read_tree(file)
                return tree, int(facts["round"]), int(facts["attempt"])
            except (AtollError, KeyError, TypeError, ValueError):
                log.warning("%s is damaged; using the state before it.", file.name)
        return None

    def _file(self, round: int) -> Path:
        return self.folder / f"round-{round:06d}.safetensors"

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("round-*.safetensors"))


def _round(file: Path) -> int:
    return int(file.stem.removeprefix("round-"))
