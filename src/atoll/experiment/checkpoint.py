"""The states of both sides after a round, kept so that a run can continue from there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.federation.validation import log
from atoll.tree import Kinds, Leaf, Tree, flat, nested, prefixed, subtree

_KEPT = 2


class Checkpoint(NamedTuple):
    """A round, the states of both sides after it, the best models and the tables until then."""

    round: int
    server: Kinds
    clients: Tree
    best: Tree
    of_best: dict[str, Any]
    tables: dict[str, bytes]


def save_checkpoint(
    run_dir: Path,
    round: int,
    server: Kinds,
    clients: Tree,
    best: Tree,
    of_best: dict[str, Any],
    tables: Mapping[str, bytes],
) -> None:
    """The states after a round, the best models so far, and the run's tables until then.

    The checkpoint before is kept in case this file is ever torn.
    """
    folder = run_dir / "checkpoints"
    tree = joined(server, clients) | prefixed("best", best) | prefixed("tables", _as_bytes(tables))
    facts = {"round": round, "best": of_best}
    write_tree(folder / f"round-{round:06d}.safetensors", tree, facts)
    for old in sorted(folder.glob("round-*.safetensors"))[:-_KEPT]:
        old.unlink()


def load_checkpoint(run_dir: Path) -> Checkpoint | None:
    """The newest states that can be read, with their round, or None if there never were any."""
    problem: AtollError | None = None
    for path in sorted((run_dir / "checkpoints").glob("round-*.safetensors"), reverse=True):
        try:
            tree, facts = read_tree(path)
        except AtollError as torn:
            log.warning("%s is damaged; trying the one before.", path.name)
            problem = torn
            continue
        return Checkpoint(
            int(facts["round"]),
            nested(subtree(tree, "server")),
            subtree(tree, "clients"),
            subtree(tree, "best"),
            facts.get("best", {}),
            {name: _content(leaf) for name, leaf in subtree(tree, "tables").items()},
        )
    if problem is not None:
        raise problem
    return None


def joined(server: Kinds, clients: Tree) -> Tree:
    """Both sides' states as one tree."""
    return prefixed("server", flat(server)) | prefixed("clients", clients)


def _as_bytes(tables: Mapping[str, bytes]) -> Tree:
    return {
        name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
        for name, content in tables.items()
    }


def _content(leaf: Leaf) -> bytes:
    assert isinstance(leaf, Tensor)
    return leaf.cpu().numpy().tobytes()
