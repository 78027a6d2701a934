"""Link stealing: which nodes are linked, read off what was sent of them (He et al., 2021).

Linked nodes have similar representations, so the score of a pair is the cosine of theirs. Where
only models are sent, the attacker must know the nodes' features; it then compares what the model
makes of each node by itself, without links. Positive are a victim's links that the attacker does
not know, negative as many pairs without one. The yardstick is the cosine of raw features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.graph import Graph, dense
from atoll.privacy.attacks.evidence import Attacker, Evidence, Representation
from atoll.privacy.attacks.finding import Finding, Measured, auc, cosine, over_victims
from atoll.tree import Params

NAME = "link-stealing"
_FEWEST_LINKS = 10


def link_stealing(
    evidence: Evidence, attacker: Attacker, advance: Callable[[], None]
) -> list[Finding]:
    by_leaf: dict[str, dict[int, list[Measured]]] = {}
    for victim in evidence.victims(attacker):
        for seen in _seen(evidence, victim, attacker):
            one = _measured(evidence, victim, attacker, seen)
            if one is not None:
                by_leaf.setdefault(seen.name, {}).setdefault(seen.round, []).append(one)
        advance()
    found: list[Finding] = []
    for name, rounds in by_leaf.items():
        every = [
            over_victims(NAME, attacker, name, "AUC", r, measured) for r, measured in rounds.items()
        ]
        most = max(len(rounds[f.round]) for f in every)
        # The round that told most, among those in which most victims were seen.
        found.append(max((f for f in every if f.victims == most), key=lambda f: f.score))
    return found


def _seen(evidence: Evidence, victim: int, attacker: Attacker) -> Iterator[Representation]:
    """What tells of a victim's nodes, in its own numbering of them."""
    graph = evidence.graphs[victim]
    if attacker == "server":
        yield from evidence.representations(victim)
    else:
        own = evidence.graphs[evidence.spy]
        for given in evidence.given(evidence.spy):
            # The spy knows which of the nodes are held by the victim too: by their ids.
            _, here, there = np.intersect1d(own.ids[given.rows], graph.ids, return_indices=True)
            yield given._replace(rows=there, values=given.values[here])
    models = evidence.models(victim, attacker)
    for r, model in (models[0], models[-1]) if models else ():
        values = _each_alone(evidence, graph, model)
        yield Representation("model (features known)", r, np.arange(graph.nodes), values)


def _each_alone(evidence: Evidence, graph: Graph, model: Params) -> np.ndarray:
    """What a model makes of nodes without any link."""
    alone = replace(graph, edges=np.zeros((2, 0), dtype=np.int64), weights=None)
    dtype = next(iter(model.values())).dtype
    with torch.no_grad():
        params = {name: p[None] for name, p in model.items()}
        made = evidence.method.model.embed(params, Cohort([alone], dtype=dtype))
    return made.numpy().astype(np.float64)


def _measured(
    evidence: Evidence, victim: int, attacker: Attacker, seen: Representation
) -> Measured | None:
    graph = evidence.graphs[victim]
    linked, apart = pairs(graph, seen.rows, np.random.default_rng(victim))
    if attacker == "client":
        linked = linked[:, ~_known(evidence, graph, seen.rows[linked])]
        apart = apart[:, : linked.shape[1]]
    if linked.shape[1] < _FEWEST_LINKS or apart.shape[1] < _FEWEST_LINKS:
        return None
    x = dense(graph.x[np.sort(seen.rows)])[np.argsort(np.argsort(seen.rows))].astype(np.float64)
    score = [_auc(values, linked, apart) for values in (np.nan_to_num(seen.values), x)]
    return Measured(score[0], score[1])


def _auc(values: np.ndarray, linked: np.ndarray, apart: np.ndarray) -> float:
    return auc(*(cosine(values[a], values[b]) for a, b in (linked, apart)))


def _known(evidence: Evidence, graph: Graph, linked: np.ndarray) -> np.ndarray:
    """Which of a victim's links the spy has itself."""
    own = evidence.graphs[evidence.spy]
    mine = {tuple(pair) for pair in own.ids[own.edges].T.tolist()}
    return np.array([tuple(p) in mine for p in graph.ids[linked].T.tolist()], dtype=bool)


def pairs(
    graph: Graph, rows: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions in ``rows`` of all linked pairs ``[2, m]`` and of as many that are not linked."""
    place = np.full(graph.nodes, -1)
    place[rows] = np.arange(len(rows))
    a, b = place[graph.edges]
    inside = (a >= 0) & (b >= 0) & (a < b)
    linked = np.unique(np.stack([a[inside], b[inside]]), axis=1)
    taken = set((linked[0] * len(rows) + linked[1]).tolist())
    apart: list[tuple[int, int]] = []
    possible = len(rows) * (len(rows) - 1) // 2 - len(taken)
    while len(apart) < min(linked.shape[1], possible // 2):
        u, v = sorted(rng.integers(0, len(rows), 2).tolist())
        if u != v and u * len(rows) + v not in taken:
            taken.add(u * len(rows) + v)
            apart.append((u, v))
    return linked, np.array(apart, dtype=np.int64).reshape(-1, 2).T
