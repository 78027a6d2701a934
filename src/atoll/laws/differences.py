"""Where two outcomes of a method differ first, and by how much, in words."""

from __future__ import annotations

import torch

from atoll.laws.federation import Outcome
from atoll.leaves import Ragged
from atoll.tree import Leaf, Tree, take


def values(leaf: Leaf) -> torch.Tensor:
    """All numbers of a leaf; rows stay rows where it is ragged."""
    if isinstance(leaf, torch.Tensor):
        return leaf
    if isinstance(leaf, Ragged):
        return leaf.values
    return torch.cat([part.flatten() for part in leaf.parts()])


def sizes(leaf: Leaf) -> tuple[int, ...]:
    """How many rows each client has of a ragged leaf."""
    return leaf.sizes if isinstance(leaf, Ragged) else ()


def first_difference(a: Outcome, b: Outcome, tolerance: float) -> str:
    """The first round in which they differ, the leaf that differs most, and its first client."""
    for one, other in zip(a.rounds, b.rounds, strict=True):
        for whose in ("clients", "server"):
            words = _differing(getattr(one, whose), getattr(other, whose), tolerance, whose)
            if words:
                return f"first after round {one.round}, {words}"
    words = _differing(a.replies.body, b.replies.body, tolerance, "clients")
    return f"in the scores after the last round, {words}" if words else ""


def _differing(one: Tree, other: Tree, tolerance: float, whose: str) -> str:
    if set(one) != set(other):
        unlike = sorted(set(one) ^ set(other))
        return f"in the names of the {whose}' state: only one of them has {', '.join(unlike)}"
    worst, largest = "", 0.0
    for name, leaf in one.items():
        gap = _gap(leaf, other[name], tolerance)
        if gap > largest:
            worst, largest = name, gap
    if not worst:
        return ""
    kept = "the server's" if whose == "server" else f"client {_client(one, other, worst)}'s"
    by = "they have different shapes" if largest == float("inf") else f"by up to {largest:.2g}"
    return f"in {kept} '{worst}': {by}"


def _gap(a: Leaf, b: Leaf, tolerance: float) -> float:
    """The largest difference, 0 within the tolerance, infinite where shapes differ."""
    x, y = values(a), values(b)
    if x.shape != y.shape or sizes(a) != sizes(b):
        return float("inf")
    x, y = x.double(), y.double()
    if torch.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
        return 0.0
    return float((x - y).abs().nan_to_num(nan=float("inf")).max())


def _client(one: Tree, other: Tree, name: str) -> int:
    """The first client whose rows of a leaf are not the same."""
    leaf = one[name]
    count = len(leaf) if isinstance(leaf, torch.Tensor) else leaf.clients
    for client in range(count):
        a, b = (values(take({name: t[name]}, [client])[name]) for t in (one, other))
        if a.shape != b.shape or not torch.allclose(a.double(), b.double(), rtol=1e-9, atol=1e-9):
            return client
    return 0
