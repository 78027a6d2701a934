"""Checkpoints: a changed one is never read, whatever was changed.

python fuzz/archives.py [--count 1000000] [--seed 0] [--only MUTANT]
"""

from __future__ import annotations

from pathlib import Path

import torch

from atoll.archive import pack
from atoll.errors import AtollError
from atoll.experiment.checkpoint import load_checkpoint, save_checkpoint
from atoll.leaves import Ragged
from harness import Failure, Target, main


def seeds(folder: Path) -> list[bytes]:
    found = []
    for hidden in (2, 5):
        server = {"model": {"w": torch.ones(3, hidden), "b": torch.zeros(hidden)}}
        clients = {"optimizer/step": torch.arange(2), "x/rows": Ragged(torch.ones(3, 1), (1, 2))}
        save_checkpoint(folder, 3, server, clients, {}, {"round": 2}, {"history": b"some bytes"})
        [file] = (folder / "checkpoints").iterdir()
        found.append(file.read_bytes())
        file.unlink()
    return [*found, pack({"w": torch.ones(2)}, {"round": 1}, digest=True)]


def make(folder: Path) -> Target:
    good = seeds(folder)
    path = folder / "checkpoints" / "round-000003.safetensors"

    def attempt(content: bytes) -> bool:
        path.write_bytes(content)
        try:
            load_checkpoint(folder)
        except AtollError:
            return False
        if content not in good:
            raise Failure("a changed checkpoint was read")
        return True

    return Target(good[:2], attempt)


if __name__ == "__main__":
    main(make, __file__, __doc__)
