"""Run directories: everything written atomically, everything read with suspicion."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars
import tomli_w

from atoll.archive import Unreadable, pack, unpack
from atoll.atomic import written_whole
from atoll.errors import AtollError
from atoll.federation.validation import log
from atoll.tree import Kinds, Tree, flat, nested, prefixed, subtree

_KEPT = 2


def write_atomically(path: Path, content: bytes) -> None:
    """All of the content or none of it: a reader never sees half a file."""
    with written_whole(path) as part, part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_toml(path: Path, table: Mapping[str, Any]) -> None:
    write_atomically(path, tomli_w.dumps(table).encode())


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def write_table(path: Path, table: polars.DataFrame) -> None:
    with written_whole(path) as part:
        table.rechunk().write_parquet(part)


def read_parquet(path: Path) -> polars.DataFrame:
    try:
        return polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError) as problem:
        raise damaged(path, problem) from problem


def damaged(path: Path, problem: object) -> AtollError:
    first = str(problem).strip().split("\n")[0]
    return AtollError(
        f"the run directory is damaged: '{path}' can't be read ({first}); start the run anew."
    )


def write_tree(path: Path, tree: Tree, facts: Mapping[str, Any]) -> None:
    """Tensors and a few facts in one file that carries its own digest."""
    write_atomically(path, pack(tree, facts, digest=True))


def read_tree(path: Path) -> tuple[Tree, dict[str, Any]]:
    """The inverse of :func:`write_tree`. A torn or altered file is an error."""
    try:
        return unpack(path.read_bytes())
    except (OSError, Unreadable) as problem:
        raise damaged(path, problem) from problem


def save_checkpoint(run_dir: Path, round: int, server: Kinds, clients: Tree) -> None:
    """The state after a round; the one before is kept in case this file is ever torn."""
    folder = run_dir / "checkpoints"
    write_tree(folder / f"round-{round:06d}.safetensors", joined(server, clients), {"round": round})
    for old in sorted(folder.glob("round-*.safetensors"))[:-_KEPT]:
        old.unlink()


def load_checkpoint(run_dir: Path) -> tuple[int, Kinds, Tree] | None:
    """The newest state that can be read, or None if there never was one."""
    problem: AtollError | None = None
    for path in sorted((run_dir / "checkpoints").glob("round-*.safetensors"), reverse=True):
        try:
            tree, facts = read_tree(path)
        except AtollError as torn:
            log.warning("%s is damaged; trying the one before.", path.name)
            problem = torn
            continue
        return int(facts["round"]), nested(subtree(tree, "server")), subtree(tree, "clients")
    if problem is not None:
        raise problem
    return None


def joined(server: Kinds, clients: Tree) -> Tree:
    """Both sides' states as one tree."""
    return prefixed("server", flat(server)) | prefixed("clients", clients)
