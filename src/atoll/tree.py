"""Trees: dictionaries of tensors. What states, messages and checkpoints are made of.

A method is written in *kinds*, ``{"model": {"conv1.weight": ...}}``. What travels, what the ledger
records and what a checkpoint holds is the flat tree of the same leaves, ``model/conv1.weight``:
:func:`flat` and :func:`nested` go from one to the other, at the border only. Per-client leaves have
a leading axis of clients; leaves of more than one tensor are in :mod:`atoll.leaves`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from atoll.leaves import Compound, Ragged, Rows
from atoll.masked import Masked

Leaf: TypeAlias = Tensor | Compound
Tree: TypeAlias = dict[str, Leaf]
Params: TypeAlias = dict[str, Tensor]
# By kind and name. Methods know what their leaves are, so leaves are not told apart by type here.
Kinds: TypeAlias = dict[str, dict[str, Any]]

_COMPOUNDS: tuple[type[Compound], ...] = (Ragged, Rows, Masked)


def kind(name: str) -> str:
    """``model`` for ``model/conv1.weight``; the name itself where it has no parts."""
    return name.split("/", 1)[0]


def flat(kinds: Mapping[str, Any]) -> dict[str, Any]:
    """``{"model": {"w": ...}} -> {"model/w": ...}``; a tree that is flat already stays as it is."""
    tree: dict[str, Any] = {}
    for name, value in kinds.items():
        if isinstance(value, Mapping):
            tree.update((f"{name}/{inner}", leaf) for inner, leaf in value.items())
        else:
            tree[name] = value
    return tree


class _Nested(dict[str, dict[str, Any]]):
    """Kinds that came from a flat tree, where a kind without leaves leaves no trace."""

    def __missing__(self, kind: str) -> dict[str, Any]:
        return {}


def nested(tree: Mapping[str, Any]) -> Kinds:
    """The inverse of :func:`flat`. A kind of which the tree has no leaf is empty."""
    kinds = _Nested()
    for name, leaf in tree.items():
        first, _, rest = name.partition("/")
        kinds.setdefault(first, {})[rest] = leaf
    return kinds


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


def replicated(params: Mapping[str, Tensor], k: int) -> Params:
    """K copies of one model, ``[...] -> [K, ...]``."""
    return {name: p.detach().expand(k, *p.shape).clone() for name, p in params.items()}


def take(tree: Mapping[str, Leaf], positions: Sequence[int]) -> Tree:
    """The rows of some clients. A contiguous run of a dense leaf is a view, not a copy."""
    first = positions[0] if positions else 0
    run = list(positions) == list(range(first, first + len(positions)))
    which: Any = slice(first, first + len(positions))
    if not run:
        which = torch.as_tensor(list(positions), dtype=torch.long)
    return {
        name: leaf.take(positions) if isinstance(leaf, Compound) else leaf[which]
        for name, leaf in tree.items()
    }


def stack(trees: Sequence[Mapping[str, Leaf]]) -> Tree:
    """Join per-client leaves along the client axis."""
    if len(trees) == 1:
        return dict(trees[0])
    return {name: _joined([tree[name] for tree in trees]) for name in trees[0]}


def _joined(leaves: Sequence[Leaf]) -> Leaf:
    first = leaves[0]
    if any(type(leaf) is not type(first) for leaf in leaves):
        raise TypeError("a leaf is of one kind for some clients and of another for others")
    if isinstance(first, Compound):
        return first.joined(leaves)
    return torch.cat([leaf for leaf in leaves if isinstance(leaf, Tensor)])


def put(tree: Tree, positions: Sequence[int], part: Mapping[str, Leaf], k: int) -> Tree:
    """``tree`` with the rows at ``positions`` replaced by ``part``; dense leaves in place."""
    if set(part) != set(tree):
        changed = sorted(set(part) ^ set(tree))
        raise ValueError(
            f"a step must keep the names of its state, which join makes; it changed {changed}"
        )
    if list(positions) == list(range(k)):
        return dict(part)
    where = torch.as_tensor(list(positions), dtype=torch.long)
    result: Tree = {}
    for name, leaf in tree.items():
        new = part[name]
        if isinstance(leaf, Ragged) and isinstance(new, Ragged):
            result[name] = leaf.replaced(positions, new)
        else:
            assert isinstance(leaf, Tensor), f"{name} can't be part of a state"
            assert isinstance(new, Tensor), f"{name} was a plain tensor before"
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
        if isinstance(leaf, Compound):
            endings = (name + ending for ending in leaf.endings)
            plain.update(zip(endings, leaf.parts(), strict=True))
        else:
            plain[name] = leaf.detach().contiguous()
    return plain


def unflatten(plain: Mapping[str, Tensor]) -> Tree:
    """A ValueError where tensors of one leaf do not belong together."""
    tree: Tree = {}
    used: set[str] = set()
    for name, value in plain.items():
        stem, mark, _ = name.rpartition("#")
        found = [c for c in _COMPOUNDS if mark and name == stem + c.endings[0]]
        if found:
            names = [stem + ending for ending in found[0].endings]
            if any(part not in plain for part in names):
                raise ValueError(f"'{stem}' is not complete")
            tree[stem] = found[0].of_parts(*(plain[part] for part in names))
            used.update(names)
        elif not mark:
            tree[name] = value
            used.add(name)
    if len(used) != len(plain):
        raise ValueError(f"tensors without a leaf: {sorted(set(plain) - used)}")
    return tree


def copy(tree: Mapping[str, Leaf]) -> Tree:
    """A tree that shares no memory with the original."""
    return {name: leaf.clone() for name, leaf in tree.items()}


def sq_dist(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Tensor:
    """Squared distance of two stacked models, one number per client ``[K]``."""
    found: list[Tensor] = [_SquaredDistance.apply(p, b[name]) for name, p in a.items()]  # type: ignore[no-untyped-call]
    return torch.stack(found).sum(0)


class _SquaredDistance(torch.autograd.Function):
    """Per client ``[K]``, without the squares of all entries and what their gradient would keep."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        apart = (a - b).flatten(1)
        return torch.bmm(apart[:, None], apart[:, :, None]).flatten()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        scale = (2 * grad).view(-1, *[1] * (a.dim() - 1))
        pull = (a - b) * scale
        return pull if ctx.needs_input_grad[0] else None, -pull if ctx.needs_input_grad[1] else None


def times(w: Mapping[str, Tensor], mask: Mapping[str, Tensor]) -> Params:
    """``w * mask`` entry by entry; what has no mask stays as it is."""
    return {name: p * mask[name] if name in mask else p for name, p in w.items()}
