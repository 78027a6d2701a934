"""The coordinator's part in matching anchors: it passes lists on, compares, and numbers.

See :mod:`atoll.deploy.matching` for what a site does, and for who learns what.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
import torch

from atoll.deploy.matching import equal_places
from atoll.deploy.remote import Remote
from atoll.errors import AtollError
from atoll.federation.codec import Answer, Request
from atoll.tree import Leaf, Tree

log = logging.getLogger("atoll")
Match = tuple[int, int, np.ndarray, np.ndarray]


def matched_anchors(fed: Remote, how: Literal["psi", "hash"]) -> tuple[np.ndarray, ...]:
    """Each site's anchors as common numbers, as :func:`atoll.partition.anchors.matched` has them.

    The sites learn the rows of their own anchors on the way, and keep them.
    """
    sites = fed.sites
    if fed.missing:
        raise AtollError(
            f"anchors can be matched only with all {len(sites)} sites present; "
            f"{', '.join(fed.missing)} did not come: start them and resume."
        )
    lists, pairs = _hashed(fed) if how == "hash" else _blinded(fed)
    matches = [(sites.index(i), sites.index(j), *equal_places(a, b)) for (i, j), (a, b) in pairs]
    places, entities = _entities(matches, [len(_tensor(lists[site])) for site in sites])
    shared: dict[str, Tree] = {
        site: {"shared": torch.from_numpy(place)} for site, place in zip(sites, places, strict=True)
    }
    answers = _turn(fed, "anchors", shared)
    ranks = [np.array(answers[site].facts["rows"], dtype=np.int64) for site in sites]
    for site, rank, place in zip(sites, ranks, places, strict=True):
        if not np.array_equal(np.sort(rank), np.arange(len(place))):
            raise AtollError(f"the site '{site}' ranks its anchors wrongly; see its log.")
    return _numbers(entities, ranks)


Lists = dict[str, Leaf]
Pairs = list[tuple[tuple[str, str], tuple[Leaf, Leaf]]]


def _blinded(fed: Remote) -> tuple[Lists, Pairs]:
    """Every site's list, and for every pair both lists under both secrets."""
    answers = _turn(fed, "blind", {site: {} for site in fed.sites})
    lists = {site: answer.tree["points"] for site, answer in answers.items()}
    pairs: Pairs = []
    for i, j in combinations(fed.sites, 2):
        raised = _turn(fed, "raise", {i: {"points": lists[j]}, j: {"points": lists[i]}})
        pairs.append(((i, j), (raised[j].tree["points"], raised[i].tree["points"])))
    return lists, pairs


def _hashed(fed: Remote) -> tuple[Lists, Pairs]:
    log.warning(
        "anchors are matched by salted hashes: whoever has a list of possible ids can find out "
        "which of them each site holds."
    )
    answers = _turn(fed, "hash", {site: {} for site in fed.sites}, salt=fed.run)
    lists = {site: answer.tree["points"] for site, answer in answers.items()}
    return lists, [((i, j), (lists[i], lists[j])) for i, j in combinations(fed.sites, 2)]


def _turn(fed: Remote, turn: str, trees: Mapping[str, Tree], **more: Any) -> dict[str, Answer]:
    """A turn of the matching; it needs every site that it involves."""
    requests = {
        site: Request("match", fed.run, fed.attempt, {"turn": turn} | more, dict(tree))
        for site, tree in trees.items()
    }
    answers = fed.ask_sites(turn, requests)
    if set(answers) != set(trees):
        raise AtollError(
            f"the anchors could not be matched ({'; '.join(fed.missing.values())}); see the "
            f"sites' logs and resume."
        )
    return answers


def _entities(
    matches: Sequence[Match], sizes: Sequence[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Which places of each list are anchors, and for each a number that equal entities share.

    ``matches`` holds, for a pair of sites, the places in their two lists that are equal.
    """
    start = np.cumsum([0, *sizes])
    parent = np.arange(start[-1])
    for i, j, a, b in matches:
        for left, right in zip((start[i] + a).tolist(), (start[j] + b).tolist(), strict=True):
            low, high = sorted((_root(parent, left), _root(parent, right)))
            parent[high] = low
    roots = np.array([_root(parent, n) for n in range(len(parent))], dtype=np.int64)
    shared = np.bincount(roots, minlength=len(parent))[roots] > 1
    places = [np.flatnonzero(shared[a:b]) for a, b in pairwise(start.tolist())]
    return places, [roots[a + p] for a, p in zip(start[:-1].tolist(), places, strict=True)]


def _root(parent: np.ndarray, entry: int) -> int:
    while parent[entry] != entry:
        parent[entry] = parent[parent[entry]]
        entry = int(parent[entry])
    return entry


def _numbers(entities: Sequence[np.ndarray], ranks: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Each site's anchors in the order of its rows, numbered by first appearance."""
    in_order = [entity[np.argsort(rank)] for entity, rank in zip(entities, ranks, strict=True)]
    unique, first = np.unique(np.concatenate(in_order), return_index=True)
    number = np.empty(len(unique), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(unique))
    return tuple(number[np.searchsorted(unique, entity)] for entity in in_order)


def _tensor(leaf: Leaf) -> torch.Tensor:
    assert isinstance(leaf, torch.Tensor)
    return leaf
