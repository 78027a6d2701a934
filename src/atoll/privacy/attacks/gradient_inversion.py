"""Gradient inversion: features of training nodes, read off what training did to a first layer.

For a layer ``h = x W + b`` the gradient of column j of ``W`` is a sum of inputs, weighted by the
derivative at unit j, and the gradient of ``b_j`` is the sum of the weights. Their quotient is a
mean of the inputs that unit j was moved by, one input where a single node moved it (Phong et al.,
2018). Two measures, on the first update of a run:

- *best cosine*: of each training node with the nearest of these means, over nodes. Chance: the same
  with the entries of every mean shuffled. Features alone: with as many nodes of other clients.
- *words, AUC*: a feature that no node has gives no gradient, so the size of its row tells whether
  it occurs in the victim's training nodes. Features alone: how often other clients' nodes have it.

Optimizers with momentum or scaling change the update; what was really sent is what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from atoll.graph import dense
from atoll.privacy.attacks.evidence import Attacker, Evidence
from atoll.privacy.attacks.finding import Finding, Measured, auc, over_victims, units
from atoll.tree import Params

NAME = "gradient-inversion"


def gradient_inversion(
    evidence: Evidence, attacker: Attacker, advance: Callable[[], None]
) -> list[Finding]:
    near: list[Measured] = []
    words: list[Measured] = []
    place = (0, "")
    for victim in evidence.victims(attacker):
        # A client sees no other client's update by itself.
        first = next(_first_layer(evidence, victim), None) if attacker == "server" else None
        if first is not None:
            place, weight, bias = first[:2], first[2], first[3]
            near.append(_nearest(evidence, victim, weight, bias))
            found = _words(evidence, victim, weight)
            if found is not None:
                words.append(found)
        advance()
    round, of = place
    named = (("best cosine", near), ("words, AUC", words))
    return [over_victims(NAME, attacker, of, what, round, found) for what, found in named if found]


def _first_layer(
    evidence: Evidence, victim: int
) -> Iterator[tuple[int, str, np.ndarray, np.ndarray | None]]:
    """Changes of the layer that features go into: ``[F, H]`` and its bias's ``[H]``."""
    changes: list[tuple[int, str, Params]] = [
        (r, "gradient", gradient) for r, gradient in evidence.gradients(victim)
    ]
    changes += [
        (u.round, "model", {n: u.before[n] - w for n, w in u.after.items()})
        for u in evidence.updates(victim)
    ]
    features = evidence.graphs[victim].features
    for r, of, change in changes:
        for name, value in change.items():
            if value.dim() == 2 and value.shape[0] == features and bool(value.any()):
                bias = change.get(name.removesuffix("weight") + "bias")
                fits = bias is not None and bias.shape == value.shape[1:]
                yield (
                    r,
                    f"{of}/{name}",
                    value.double().numpy(),
                    bias.double().numpy() if fits and bias is not None else None,
                )


def _nearest(
    evidence: Evidence, victim: int, weight: np.ndarray, bias: np.ndarray | None
) -> Measured:
    graph, rng = evidence.graphs[victim], np.random.default_rng(victim)
    x = units(dense(graph.x[np.flatnonzero(graph.train)]).astype(np.float64))
    # The length of a mean does not matter to a cosine, its sign does.
    made = np.concatenate([weight.T, -weight.T])
    if bias is not None:
        made = weight.T * np.where(bias < 0, -1.0, 1.0)[:, None]
    others = [g.x for k, g in enumerate(evidence.graphs) if k != victim]
    drawn = np.zeros((1, x.shape[1]))
    if others:
        from_each = -(-len(made) // len(others))
        drawn = np.concatenate([dense(o[rng.choice(o.shape[0], from_each)]) for o in others])
    found = (made, drawn, rng.permuted(made, axis=1))
    return Measured(*(float((x @ units(c).T).max(1).mean()) for c in found))


def _words(evidence: Evidence, victim: int, weight: np.ndarray) -> Measured | None:
    graph = evidence.graphs[victim]
    used: np.ndarray = (dense(graph.x[np.flatnonzero(graph.train)]) != 0).sum(0) > 0
    if not 0 < used.sum() < len(used):
        return None
    moved = np.linalg.norm(weight, axis=1)
    usual = np.zeros(len(used))
    for k, other in enumerate(evidence.graphs):
        if k != victim:
            usual += np.asarray((other.x != 0).sum(0)).reshape(-1)
    return Measured(auc(moved[used], moved[~used]), auc(usual[used], usual[~used]))
