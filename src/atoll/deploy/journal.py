"""A deployed run's directory: what its coordinator continues from and its operator reads."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.files import PRIVATE, NoRoom, write_bytes, write_json

_STATUS, _HANDOVER, _JOB, _SPARE = "status.json", "handover", "job.json", "spare"
_SPARE_BYTES = 2**16
# What a run by ``atoll up`` has, whose sites' folders are on this machine.
FOLDER = Path("federation", "folder.json")
_SITES, _ATTEMPT, _AGREED = "sites.json", "attempt.json", "agreed.json"
_ANCHORS, _NETWORK = "anchors.safetensors", "network.safetensors"


class Journal:
    """Everything is in it before the next round begins, so a coordinator can be killed anytime."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def status(self) -> dict[str, Any]:
        """What the coordinator reported last; empty before its first report."""
        return self._facts(_STATUS)

    def report(self, **status: Any) -> None:
        """What an operator sees, also where the disk is full."""
        said = status | {"time": time.time()}
        try:
            write_json(self.run_dir / _STATUS, said)
        except NoRoom:
            (self.run_dir / _SPARE).unlink(missing_ok=True)
            write_json(self.run_dir / _STATUS, said)

    def keep_spare_room(self) -> None:
        """Take room for a last word, before it is needed."""
        if not (self.run_dir / _SPARE).is_file():
            write_bytes(self.run_dir / _SPARE, secrets.token_bytes(_SPARE_BYTES), PRIVATE)

    @property
    def job(self) -> str:
        """The job that works on the run; those before it have no more say."""
        return str(self._facts(_JOB).get("job", ""))

    def next_job(self) -> str:
        """A word for a new job, which from now on is the one that works on the run."""
        job = secrets.token_hex(8)
        write_json(self.run_dir / _JOB, {"job": job})
        return job

    def ask_for_handover(self) -> None:
        """Have the coordinator end its job after this round; another will go on from there."""
        (self.run_dir / _HANDOVER).touch()

    def no_handover(self) -> None:
        (self.run_dir / _HANDOVER).unlink(missing_ok=True)

    @property
    def handover(self) -> bool:
        return (self.run_dir / _HANDOVER).exists()

    def next_attempt(self) -> int:
        """Attempts are counted over restarts: no reply of an earlier one can be taken for ours."""
        # In two files, so that a torn one does not start the count anew.
        noted = (self._facts(_ATTEMPT), self.status())
        number = max(int(facts.get("attempt", 0)) for facts in noted) + 1
        write_json(self.run_dir / _ATTEMPT, {"attempt": number})
        return number

    def sites(self) -> dict[str, Any]:
        """What the sites reported of themselves when they came."""
        return self._facts(_SITES)

    def keep_sites(self, known: dict[str, Any]) -> None:
        write_json(self.run_dir / _SITES, known)

    def agreed(self, agree: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What follows from the words of the first sites; settled once per run."""
        found = self._facts(_AGREED)
        if not found:
            found = agree()
            write_json(self.run_dir / _AGREED, found)
        return found

    def anchors(self, match: Callable[[], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
        """Each site's anchors as numbers; matched once per run, then read from here."""
        path = self.run_dir / _ANCHORS
        if not path.is_file():
            numbers = match()
            values = torch.from_numpy(np.concatenate(numbers))
            write_tree(path, {"anchors": values}, {"sizes": [len(n) for n in numbers]})
        tree, facts = read_tree(path)
        anchors = tree["anchors"]
        assert isinstance(anchors, torch.Tensor)
        return tuple(block.numpy() for block in torch.split(anchors, facts["sizes"]))

    def network(self, method: str) -> sparse.csr_array:
        """The network among sites that the operator has laid down for the server."""
        path = self.run_dir / _NETWORK
        if not path.is_file():
            raise needs_network(method)
        matrix = read_tree(path)[0]["network"]
        assert isinstance(matrix, torch.Tensor)
        return sparse.csr_array(matrix.numpy())

    def keep_network(self, matrix: torch.Tensor) -> None:
        write_tree(self.run_dir / _NETWORK, {"network": matrix}, {})

    def _facts(self, name: str) -> dict[str, Any]:
        try:
            facts = json.loads((self.run_dir / name).read_text())
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}


def way_on(run_dir: Path) -> str:
    """The command that continues a run: one of ``atoll up`` has its federation within, the others
    are a server's."""
    if (run_dir / FOLDER).is_file():
        return f"atoll resume {run_dir}"
    return f"atoll submit --resume {run_dir.name}"


def disk_is_full(run_dir: Path, round: int) -> AtollError:
    return AtollError(
        f"the disk of '{run_dir}' is full, so the run stopped; nothing is lost, the model is that "
        f"of round {round}: make room there and continue with: {way_on(run_dir)}"
    )


def needs_network(method: str) -> AtollError:
    return AtollError(
        f"{method} needs the network among the sites; give it as a file with --network."
    )
