"""The states of both sides after a round, kept so that a run can continue from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.federation.validation import log
from atoll.tree import Kinds, Tree, flat, nested, prefixed, subtree

_KEPT = 2


class Checkpoint(NamedTuple):
    """A round, the states of both sides after it, and the models of the best round until then."""

    round: int
    server: Kinds
    clients: Tree
    best: Tree
    of_best: dict[str, Any]


def save_checkpoint(
    run_dir: Path, round: int, server: Kinds, clients: Tree, best: Tree, of_best: dict[str, Any]
) -> None:
    """The states after a round and the best models so far.

    The checkpoint before is kept in case this file is ever torn.
    """
    folder = run_dir / "checkpoints"
    tree = joined(server, clients) | prefixed("best", best)
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
        )
    if problem is not None:
        raise problem
    return None


def joined(server: Kinds, clients: Tree) -> Tree:
    """Both sides' states as one tree."""
    return prefixed("server", flat(server)) | prefixed("clients", clients)
