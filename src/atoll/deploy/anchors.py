"""The coordinator's part in matching anchors: it carries letters, and numbers what sites share.

See :mod:`atoll.deploy.matching` for what sites do, and for who learns what.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
import torch

from atoll.deploy.matching import TURNS
from atoll.deploy.remote import Remote
from atoll.deploy.ristretto import POINT
from atoll.federation.codec import Answer, Request
from atoll.tree import Leaf, Tree

log = logging.getLogger("atoll")
Match = tuple[int, int, np.ndarray, np.ndarray]
# What a letter has besides its points, and an answer besides its letters.
_LETTER, _ANSWER = 2**11, 2**16


def matched_anchors(fed: Remote, nodes: Mapping[str, int]) -> tuple[np.ndarray, ...]:
    """Each site's anchors as common numbers, as :func:`atoll.partition.anchors.matched` has them.

    The sites learn the rows of their own anchors on the way, and keep them. A site that is not
    there, or is lost before the end, has none. ``nodes`` is how many each has said that it holds.
    """
    answers = _exchanged(fed, nodes)
    sizes = [_size(answers.get(site), nodes.get(site, 0)) for site in fed.sites]
    matches: list[Match] = []
    for i, j in combinations(range(len(fed.sites)), 2):
        a, b = (_ranks(answers, fed.sites[x], fed.sites[y], sizes[x]) for x, y in ((i, j), (j, i)))
        if a is None or b is None or len(a) != len(b):
            if a is not None or b is not None:
                log.warning(
                    "what '%s' and '%s' share does not count: they do not agree on it.",
                    fed.sites[i],
                    fed.sites[j],
                )
            continue
        matches.append((i, j, a, b))
    return _numbers(matches, sizes)


def _exchanged(fed: Remote, nodes: Mapping[str, int]) -> dict[str, Answer]:
    """Carry the letters of all turns; returns the last answers, of those who saw it through."""
    peers = set(fed.present)
    inbox: dict[str, Tree] = {site: {} for site in peers}
    answers: dict[str, Answer] = {}
    for turn in TURNS:
        requests = {}
        for site in fed.present:
            if site in inbox:
                others = sorted(peers - {site})
                facts = {"turn": turn, "peers": others if turn == TURNS[0] else []}
                requests[site] = Request("match", fed.run, fed.attempt, facts, inbox[site])
        answers = fed.ask_sites(turn, requests, largest=_largest(requests, nodes))
        inbox = {site: {} for site in answers}
        for sender, answer in answers.items():
            for name, leaf in answer.tree.items():
                receiver = name.removeprefix("to/")
                if receiver in inbox and receiver != sender:
                    inbox[receiver][f"from/{sender}"] = leaf
    return answers


def _largest(sites: Mapping[str, Request], nodes: Mapping[str, int]) -> int:
    """What the largest honest answer of a turn has: a letter to each peer, of all its points."""
    longest = max((nodes.get(site, 0) for site in sites), default=0)
    return len(sites) * (longest * POINT + _LETTER) + _ANSWER


def _size(answer: Answer | None, nodes: int) -> int:
    """How many anchors a site has found; none if it says what can't be."""
    said = None if answer is None else answer.tree.get("anchors")
    if not isinstance(said, torch.Tensor) or said.dtype != torch.int64 or said.shape != (1,):
        return 0
    return int(said[0]) if 0 <= int(said[0]) <= nodes else 0


def _ranks(answers: Mapping[str, Answer], site: str, peer: str, size: int) -> np.ndarray | None:
    """The ranks of what a site shares with a peer, among its anchors; None if it has said none."""
    leaf: Leaf | None = answers[site].tree.get(f"pair/{peer}") if site in answers else None
    if not isinstance(leaf, torch.Tensor) or leaf.dtype != torch.int64 or leaf.dim() != 1:
        return None
    ranks: np.ndarray = leaf.numpy()
    there = (ranks >= 0) & (ranks < size)
    return ranks if there.all() and len(np.unique(ranks)) == len(ranks) else None


def _numbers(matches: Sequence[Match], sizes: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Each site's anchors in the order of its rows, with numbers that equal entities share, in the
    order of first appearance.

    ``matches`` holds, for a pair of sites, the ranks of their anchors that are equal.
    """
    start = np.cumsum([0, *sizes])
    parent = np.arange(start[-1])
    for i, j, a, b in matches:
        for left, right in zip((start[i] + a).tolist(), (start[j] + b).tolist(), strict=True):
            low, high = sorted((_root(parent, left), _root(parent, right)))
            parent[high] = low
    roots = np.array([_root(parent, n) for n in range(len(parent))], dtype=np.int64)
    unique, first, inverse = np.unique(roots, return_index=True, return_inverse=True)
    number = np.empty(len(unique), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(unique))
    return tuple(number[inverse[a:b]] for a, b in pairwise(start.tolist()))


def _root(parent: np.ndarray, entry: int) -> int:
    while parent[entry] != entry:
        parent[entry] = parent[parent[entry]]
        entry = int(parent[entry])
    return entry
