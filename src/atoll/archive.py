"""Trees as bytes, for files and wires: safetensors with a small JSON header. Never a pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load, save
from torch import Tensor

from atoll.files import damaged, write_bytes
from atoll.tree import Leaf, Tree, flatten, unflatten


class Unreadable(ValueError):
    """Bytes that are no archive, or a damaged one."""


def pack(tree: Mapping[str, Leaf], facts: Mapping[str, Any], digest: bool = False) -> bytes:
    """A tree and a few plain facts; ``digest`` adds a SHA-256 of the content.

    The same tree always gives the same bytes, and comes back with its names in the same order:
    safetensors itself keeps neither the order of tensors nor that of several header entries.
    """
    plain = flatten(tree)
    header: dict[str, Any] = {"facts": dict(facts), "order": list(plain)}
    if digest:
        header["digest"] = _digest(plain)
    return save(plain, metadata={"atoll": json.dumps(header)})


def unpack(content: bytes) -> tuple[Tree, dict[str, Any]]:
    """The inverse of :func:`pack`. What was torn or altered raises :class:`Unreadable`."""
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["atoll"])
        loaded = load(content)
        plain = {name: loaded[name] for name in header["order"]}
        if "digest" in header and header["digest"] != _digest(plain):
            raise Unreadable("its digest does not match its content")
        return unflatten(plain), header["facts"]
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as problem:
        raise Unreadable(str(problem)) from problem


def write_tree(
    path: Path, tree: Mapping[str, Leaf], facts: Mapping[str, Any], mode: int | None = None
) -> None:
    """Tensors and a few facts in one file that carries its own digest."""
    write_bytes(path, pack(tree, facts, digest=True), mode)


def read_tree(path: Path) -> tuple[Tree, dict[str, Any]]:
    """The inverse of :func:`write_tree`. A torn or altered file is an error."""
    try:
        return unpack(path.read_bytes())
    except (OSError, Unreadable) as problem:
        raise damaged(path, problem) from problem


def _digest(plain: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in plain.items():
        total.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        total.update(value.numpy().tobytes())
    return total.hexdigest()
