"""The models that a site was scored with: of the last rounds, and of the best one."""

from __future__ import annotations

import logging
from pathlib import Path

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.experiment.best import FILE
from atoll.files import read_json, write_json
from atoll.tree import Tree

log = logging.getLogger("atoll")
# As many as a coordinator may fall back by, and one more.
_LAST = 4
_TOLD = "best-round.json"


class ScoredModels:
    """Kept by round in a run's folder at its site, and few: which round was the best is the
    coordinator's word, which comes with the requests of later rounds.

    A site that sat the best round out keeps the model it had before it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The best round, and the one that was the best before: the coordinator may fall back.
        self._told: list[int] | None = None

    @property
    def told(self) -> list[int]:
        if self._told is None:
            try:
                noted = read_json(self.folder / _TOLD)
                self._told = [int(best) for best in noted["rounds"]]
            except (AtollError, OSError, KeyError, TypeError, ValueError):
                self._told = []
        return self._told

    def keep(self, round: int, tree: Tree) -> None:
        """What the site is scored with in a round, durable before it answers."""
        write_tree(self._file(round), tree, {"round": round})
        self._drop()

    def heed(self, best: int) -> None:
        """Remember the best round so far."""
        if best and [best] != self.told[:1]:
            self._told = [best, *self.told][:2]
            write_json(self.folder / _TOLD, {"rounds": self._told})

    def forget(self, since: int) -> None:
        """A round is begun anew: what it and later ones gave does not count."""
        for file in self._files():
            if _round(file) >= since:
                file.unlink()

    def finish(self, best: int) -> None:
        """Leave the model of the best round, in the form in which runs have it."""
        self.heed(best)
        file = self._until(best)
        if file is None:
            return
        tree, facts = read_tree(file)
        if facts["round"] != best:
            log.warning(
                "the best round was %d, which this site sat out; its model is that of round %d.",
                best,
                facts["round"],
            )
        write_tree(self.folder / FILE, tree, facts)

    def _drop(self) -> None:
        needed = {self._until(best) for best in self.told} | set(self._files()[-_LAST:])
        for file in self._files():
            if file not in needed:
                file.unlink()

    def _until(self, round: int) -> Path | None:
        """The newest file of a round up to some round."""
        found = [file for file in self._files() if _round(file) <= round]
        return found[-1] if found else None

    def _file(self, round: int) -> Path:
        return self.folder / f"scored-{round:06d}.safetensors"

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("scored-*.safetensors"))


def _round(file: Path) -> int:
    return int(file.stem.removeprefix("scored-"))
