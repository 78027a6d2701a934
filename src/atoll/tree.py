"""Trees: flat dictionaries of tensors. What states, messages and checkpoints are made of.

A name's first part says what kind of thing it is: ``model/conv1.weight`` is of kind ``model``.
Per-client leaves have a leading axis of clients; a leaf whose length differs from client to
client is :class:`Ragged`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Ragged:
    """One block of rows a client: ``values [sum(sizes), ...]``, ``sizes [clients]``."""

    values: Tensor
    sizes: tuple[int, ...]

    def blocks(self) -> tuple[Tensor, ...]:
        return torch.split(self.values, list(self.sizes))


Leaf: TypeAlias = Tensor | Ragged
Tree: TypeAlias = dict[str, Leaf]
Params: TypeAlias = dict[str, Tensor]

_VALUES, _SIZES = "#values", "#sizes"


def kind(name: str) -> str:
    """``model`` for ``model/conv1.weight``; the name itself where it has no parts."""
    return name.split("/", 1)[0]


def prefixed(prefix: str, tree: Mapping[str, Leaf]) -> Tree:
    return {f"{prefix}/{name}": leaf for name, leaf in tree.items()}


def subtree(tree: Mapping[str, Leaf], prefix: str) -> Tree:
    """The leaves whose names start with ``prefix/``, without it."""
    start = prefix + "/"
    return {name[len(start) :]: leaf for name, leaf in tree.items() if name.startswith(start)}


def under(tree: Mapping[str, Leaf], prefix: str) -> Params:
    """A subtree of plain tensors."""
    found: Params = {}
    for name, leaf in subtree(tree, prefix).items():
        if not isinstance(leaf, Tensor):
            raise TypeError(f"{prefix}/{name} is ragged; read it from the tree itself")
        found[name] = leaf
    return found


def ragged(tree: Mapping[str, Leaf], name: str) -> Ragged:
    """A leaf that is ragged."""
    leaf = tree[name]
    if not isinstance(leaf, Ragged):
        raise TypeError(f"{name} is a plain tensor, not ragged")
    return leaf


def spread(
    params: Mapping[str, Tensor], k: int, into: Mapping[str, Tensor] | None = None
) -> Params:
    """K copies of one model, ``[...] -> [K, ...]``.

    ``into`` gives buffers to overwrite: a fresh allocation of K models costs more in page
    faults than the copy itself.
    """
    copies: Params = {}
    for name, value in params.items():
        shape = (k, *value.shape)
        buffer = (into or {}).get(name)
        if buffer is None or buffer.shape != shape or buffer.dtype != value.dtype:
            buffer = value.new_empty(shape)
        copies[name] = buffer.detach().copy_(value.expand(shape))
    return copies


def take(tree: Mapping[str, Leaf], positions: Sequence[int]) -> Tree:
    """The rows of some clients. A contiguous run of a dense leaf is a view, not a copy."""
    return {name: _take(leaf, positions) for name, leaf in tree.items()}


def _take(leaf: Leaf, positions: Sequence[int]) -> Leaf:
    if isinstance(leaf, Ragged):
        blocks = leaf.blocks()
        chosen = [blocks[p] for p in positions]
        values = torch.cat(chosen) if chosen else leaf.values[:0]
        return Ragged(values, tuple(leaf.sizes[p] for p in positions))
    first = positions[0] if positions else 0
    if list(positions) == list(range(first, first + len(positions))):
        return leaf[first : first + len(positions)]
    return leaf[torch.as_tensor(list(positions), dtype=torch.long)]


def stack(trees: Sequence[Mapping[str, Leaf]]) -> Tree:
    """Join per-client leaves along the client axis."""
    if len(trees) == 1:
        return dict(trees[0])
    return {name: _concat([tree[name] for tree in trees]) for name in trees[0]}


def _concat(leaves: Sequence[Leaf]) -> Leaf:
    dense = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if len(dense) == len(leaves):
        return torch.cat(dense)
    uneven = [leaf for leaf in leaves if isinstance(leaf, Ragged)]
    if len(uneven) != len(leaves):
        raise TypeError("a leaf is ragged for some clients and dense for others")
    sizes = tuple(size for leaf in uneven for size in leaf.sizes)
    return Ragged(torch.cat([leaf.values for leaf in uneven]), sizes)


def put(tree: Tree, positions: Sequence[int], part: Mapping[str, Leaf], k: int) -> Tree:
    """``tree`` with the rows at ``positions`` replaced by ``part``; dense leaves in place."""
    if list(positions) == list(range(k)):
        return dict(part)
    if set(part) != set(tree):
        changed = sorted(set(part) ^ set(tree))
        raise ValueError(f"a step must keep the names of its state; it changed {changed}")
    where = torch.as_tensor(list(positions), dtype=torch.long)
    result: Tree = {}
    for name, leaf in tree.items():
        new = part[name]
        if isinstance(leaf, Ragged):
            blocks = list(leaf.blocks())
            for position, block in zip(positions, ragged(part, name).blocks(), strict=True):
                blocks[position] = block
            result[name] = Ragged(torch.cat(blocks), tuple(len(b) for b in blocks))
        else:
            assert isinstance(new, Tensor)
            if not _is_view_of(new, leaf, positions):
                leaf.index_copy_(0, where, new.detach())
            result[name] = leaf
    return result


def _is_view_of(new: Tensor, leaf: Tensor, positions: Sequence[int]) -> bool:
    first = leaf[positions[0]] if positions else leaf
    run = list(positions) == list(range(positions[0], positions[0] + len(positions)))
    return run and new.data_ptr() == first.data_ptr() and new.is_contiguous()


def flatten(tree: Mapping[str, Leaf]) -> Params:
    """Plain contiguous tensors only, for files and wires; :func:`unflatten` is its inverse."""
    plain: Params = {}
    for name, leaf in tree.items():
        if isinstance(leaf, Ragged):
            plain[name + _VALUES] = leaf.values.detach().contiguous()
            plain[name + _SIZES] = torch.tensor(leaf.sizes, dtype=torch.int64)
        else:
            plain[name] = leaf.detach().contiguous()
    return plain


def unflatten(plain: Mapping[str, Tensor]) -> Tree:
    tree: Tree = {}
    for name, value in plain.items():
        if name.endswith(_VALUES):
            stem = name[: -len(_VALUES)]
            sizes = tuple(int(size) for size in plain[stem + _SIZES])
            if min(sizes, default=0) < 0 or sum(sizes) != len(value):
                raise ValueError(f"'{stem}' has sizes that do not fit")
            tree[stem] = Ragged(value, sizes)
        elif not name.endswith(_SIZES):
            tree[name] = value
    return tree


def copy(tree: Mapping[str, Leaf]) -> Tree:
    """A tree that shares no memory with the original."""
    return {
        name: Ragged(leaf.values.clone(), leaf.sizes) if isinstance(leaf, Ragged) else leaf.clone()
        for name, leaf in tree.items()
    }


def sq_dist(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Tensor:
    """Squared distance of two stacked models, one number a client ``[K]``."""
    return torch.stack([(a[name] - b[name]).flatten(1).square().sum(1) for name in a]).sum(0)
