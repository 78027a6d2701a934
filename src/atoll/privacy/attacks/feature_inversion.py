"""Feature inversion: features of single nodes, computed from what was sent of them.

A curious server that one client helps with its own data fits a ridge regression from that client's
representations to its features, and applies it to the other clients' representations. Measured is
the cosine of each node's features with what is computed for it, over nodes. Chance and features
alone are one: the helping client's mean features, which need no messages.

Where as many numbers are sent as there are features, they are also taken as they are: measured is
how near the nearest of the victim's nodes comes to each row. Chance: the same with the entries of
each row shuffled; features alone: with nodes of the helping client in place of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atoll.graph import Graph, dense
from atoll.privacy.attacks.evidence import Attacker, Evidence, Representation
from atoll.privacy.attacks.finding import Finding, Measured, cosine, over_victims, units

NAME = "feature-inversion"
# The one that predicts half of the helping client's nodes best from the other half is taken.
_RIDGES = (1e-4, 1e-2, 1.0, 1e2, 1e4)


def feature_inversion(
    evidence: Evidence, attacker: Attacker, advance: Callable[[], None]
) -> list[Finding]:
    found: dict[tuple[str, int], list[Measured]] = {}
    helped = {}
    if attacker == "server":
        helped = {(seen.name, seen.round): seen for seen in evidence.representations(evidence.spy)}
    plain: dict[tuple[str, int], list[Measured]] = {}
    for victim in evidence.victims(attacker):
        for seen in evidence.representations(victim) if attacker == "server" else ():
            if seen.values.shape[1] == evidence.graphs[victim].features and seen.values.any():
                key = (seen.name, seen.round)
                plain.setdefault(key, []).append(_as_they_are(evidence, victim, seen))
            if victim == evidence.spy:
                continue
            known = helped.get((seen.name, seen.round))
            if known is not None and len(known.rows) > 1:
                one = _measured(evidence, victim, known, seen)
                found.setdefault((seen.name, seen.round), []).append(one)
        advance()
    every = [
        over_victims(NAME, attacker, name, "cosine", r, measured)
        for (name, r), measured in found.items()
    ]
    every += [
        over_victims(NAME, attacker, name, "nearest node, cosine", r, measured)
        for (name, r), measured in plain.items()
    ]
    best: dict[tuple[str, str], Finding] = {}
    for finding in every:
        sort = (finding.of, finding.measure)
        if sort not in best or finding.score > best[sort].score:
            best[sort] = finding
    return list(best.values())


def _as_they_are(evidence: Evidence, victim: int, seen: Representation) -> Measured:
    graph, rng = evidence.graphs[victim], np.random.default_rng(victim)
    nodes = units(_features(graph, np.arange(graph.nodes)))
    rows = np.nan_to_num(seen.values[seen.values.any(1)])
    other = evidence.graphs[evidence.spy if victim != evidence.spy else -1]
    foreign = _features(other, np.sort(rng.choice(other.nodes, min(other.nodes, len(rows)))))
    nearest = [
        float((units(some) @ nodes.T).max(1).mean())
        for some in (rows, foreign, rng.permuted(rows, axis=1))
    ]
    return Measured(*nearest)


def _measured(
    evidence: Evidence, victim: int, known: Representation, seen: Representation
) -> Measured:
    own = _features(evidence.graphs[evidence.spy], known.rows)
    truth = _features(evidence.graphs[victim], seen.rows)
    values, mean = np.nan_to_num(known.values), own.mean(0)
    half = np.arange(len(own)) % 2 == 0
    ridge = max(_RIDGES, key=lambda r: _held_out(values, own, half, r))
    guess = _predicted(values, own, np.nan_to_num(seen.values), ridge)
    # Nodes that the helping client holds itself are no discovery.
    new = ~np.isin(
        evidence.graphs[victim].ids[seen.rows], evidence.graphs[evidence.spy].ids[known.rows]
    )
    chosen = new if new.any() else np.ones(len(new), dtype=bool)
    prior = float(cosine(np.broadcast_to(mean, truth.shape), truth)[chosen].mean())
    return Measured(float(cosine(guess, truth)[chosen].mean()), prior, prior)


def _held_out(values: np.ndarray, x: np.ndarray, half: np.ndarray, ridge: float) -> float:
    """How well one half of the helping client's nodes predicts the other."""
    guess = _predicted(values[half], x[half], values[~half], ridge)
    return float(cosine(guess, x[~half]).mean())


def _predicted(values: np.ndarray, x: np.ndarray, at: np.ndarray, ridge: float) -> np.ndarray:
    """A ridge regression from representations to features, applied to others."""
    mean, center = x.mean(0), values.mean(0)
    a = values - center
    inner = a.T @ a
    scale = float(np.trace(inner)) / len(inner) or 1.0
    solved = np.linalg.solve(inner + ridge * scale * np.eye(len(inner)), a.T @ (x - mean))
    predicted: np.ndarray = mean + (at - center) @ solved
    return predicted


def _features(graph: Graph, rows: np.ndarray) -> np.ndarray:
    order = np.argsort(rows)
    x = np.empty((len(rows), graph.features))
    x[order] = dense(graph.x[rows[order]])
    return x
