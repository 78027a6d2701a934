"""Trees as bytes, for files and wires: safetensors with a small JSON header. Never a pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load, save

from atoll.device import there
from atoll.files import damaged, write_bytes
from atoll.tree import Leaf, Tree, flatten, unflatten

# What no honest header exceeds: names, shapes and a few facts.
_LARGEST_HEADER = 2**24
# What methods and their states are made of.
_NAMES = frozenset(
    str(d)
    for d in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64)
)

_SEAL, _UNSEALED = "sha256", "0" * 64
# How a file with a digest begins, after the eight bytes of its header's size.
_BEFORE_SEAL = rb'{"__metadata__":{"atoll":"{\"sha256\": \"'


class Unreadable(ValueError):
    """Bytes that are no archive, or a damaged one."""


def pack(tree: Mapping[str, Leaf], facts: Mapping[str, Any], digest: bool = False) -> bytes:
    """A tree and a few plain facts; ``digest`` adds a SHA-256 of all bytes but its own.

    The same tree always gives the same bytes, and comes back with its names in the same order:
    safetensors itself keeps neither the order of tensors nor that of several header entries.
    """
    plain = flatten(tree)
    header: dict[str, Any] = {"facts": dict(facts), "order": list(plain)}
    if not digest:
        return save(plain, metadata={"atoll": json.dumps(header)})
    # First in the header, so that it is found without reading anything.
    header = {_SEAL: _UNSEALED, **header}
    content = save(plain, metadata={"atoll": json.dumps(header)})
    at = _seal_at(content)
    return content[:at] + _digest(content, at).encode() + content[at + len(_UNSEALED) :]


def unpack(content: bytes, digest: bool = False) -> tuple[Tree, dict[str, Any]]:
    """The inverse of :func:`pack`. What was torn or altered raises :class:`Unreadable`.

    A digest is checked wherever there is one, before anything is parsed; if asked for it must be
    there.
    """
    try:
        size = int.from_bytes(content[:8], "little")
        if size > _LARGEST_HEADER:
            raise Unreadable(f"a header of {size} bytes, more than {_LARGEST_HEADER}")
        if digest or content[8:].startswith(_BEFORE_SEAL):
            _refuse_altered(content)
        header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["atoll"])
        loaded = load(content)
        order = header["order"]
        if sorted(order) != sorted(loaded):
            raise Unreadable("tensors that its header does not name")
        plain = {name: there(loaded[name]) for name in order}
        if strange := {str(value.dtype) for value in plain.values()} - _NAMES:
            raise Unreadable(f"numbers of the type {', '.join(sorted(strange))}")
        return unflatten(plain), header["facts"]
    except RecursionError as problem:
        raise Unreadable("a header nested too deep") from problem
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
        return unpack(path.read_bytes(), digest=True)
    except (OSError, Unreadable) as problem:
        raise damaged(path, problem) from problem


def _refuse_altered(content: bytes) -> None:
    at = _seal_at(content)
    said = content[at : at + len(_UNSEALED)]
    if said != _digest(content, at).encode():
        raise Unreadable("its digest does not match its content")


def _seal_at(content: bytes) -> int:
    """Where the digest stands, which is at a fixed place."""
    at = 8 + len(_BEFORE_SEAL)
    if content[8:at] != _BEFORE_SEAL:
        raise Unreadable("it has no digest of all its bytes, like files of earlier versions")
    return at


def _digest(content: bytes, at: int) -> str:
    """Of all bytes, as if the digest itself were not written yet."""
    view = memoryview(content)
    total = hashlib.sha256(view[:at])
    total.update(_UNSEALED.encode())
    total.update(view[at + len(_UNSEALED) :])
    return total.hexdigest()
