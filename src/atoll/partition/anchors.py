"""Anchors: entities that several parties hold. Parties get rows, the server gets numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atoll.graph import Graph


def matched(parties: Sequence[Graph]) -> tuple[list[Graph], tuple[np.ndarray, ...]]:
    """The parties with their anchors' rows, and each party's anchors as the server numbers them.

    A party's ``anchors`` are the rows, ascending, whose entity somebody else holds too. The server
    gets one number for each of them, equal where the entity is, in order of first appearance: it
    can tell which of two parties' anchors are the same and learns nothing else. Ids stay here,
    where a simulation holds all parties; sites match theirs by private set intersection.
    """
    entity = _entities([party.ids for party in parties])
    owners = np.bincount(np.concatenate([np.unique(e) for e in entity]))
    rows = [np.flatnonzero(owners[e] > 1) for e in entity]
    seen = np.concatenate([e[r] for e, r in zip(entity, rows, strict=True)])
    first = np.unique(seen, return_index=True)[1]
    number = np.full(len(owners), -1, dtype=np.int64)
    number[seen[np.sort(first)]] = np.arange(len(first))
    found = [p.with_anchors(r) for p, r in zip(parties, rows, strict=True)]
    return found, tuple(number[e[r]] for e, r in zip(entity, rows, strict=True))


def _entities(ids: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Ids as common numbers from 0."""
    _, number = np.unique(np.concatenate(ids), return_inverse=True)
    return np.split(number.reshape(-1), np.cumsum([len(i) for i in ids])[:-1])
