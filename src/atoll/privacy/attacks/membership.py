"""Membership: which nodes a model was trained on, by how well it does on them.

A model fits what it was trained on better than the rest (Yeom et al., 2018), so the score of a node
is minus its loss. *Calibrated*, the loss under the other clients' models is subtracted first, which
takes away how hard a node is in itself (Watson et al., 2022). The attacker is taken to know the
victim's nodes, links and labels, and not which of them are for training. Positive are training
nodes, negative test nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.graph import Graph
from atoll.privacy.attacks.evidence import Attacker, Evidence
from atoll.privacy.attacks.finding import Finding, Measured, auc, over_victims
from atoll.tree import Params

NAME = "membership"
_FEWEST_NODES = 10
_NOTHING_ALONE = float("nan")


def membership(
    evidence: Evidence, attacker: Attacker, advance: Callable[[], None]
) -> list[Finding]:
    last = {v: evidence.models(v, attacker)[-1:] for v in evidence.victims(attacker)}
    plain: list[Measured] = []
    calibrated: list[Measured] = []
    round = 0
    for victim, models in last.items():
        graph = evidence.graphs[victim]
        inside, outside = graph.train & (graph.y >= 0), graph.test & (graph.y >= 0)
        if models and min(inside.sum(), outside.sum()) >= _FEWEST_NODES:
            [(round, model)] = models
            loss = _losses(evidence, graph, model)
            plain.append(Measured(auc(-loss[inside], -loss[outside]), _NOTHING_ALONE))
            others = [m[0][1] for v, m in last.items() if v != victim and m]
            if attacker == "server" and others:
                usual = np.mean([_losses(evidence, graph, other) for other in others], axis=0)
                gain = usual - loss
                calibrated.append(Measured(auc(gain[inside], gain[outside]), _NOTHING_ALONE))
        advance()
    named = (("model, loss", plain), ("model, loss calibrated", calibrated))
    return [over_victims(NAME, attacker, of, "AUC", round, found) for of, found in named if found]


def _losses(evidence: Evidence, graph: Graph, model: Params) -> np.ndarray:
    """Of every node, under a model on the victim's graph ``[n]``; unknown labels count as class 0,
    and nobody looks at them."""
    dtype = next(iter(model.values())).dtype
    with torch.no_grad():
        params = {name: p[None] for name, p in model.items()}
        scores = evidence.method.model.apply(params, Cohort([graph], dtype=dtype))
        chosen = torch.from_numpy(np.maximum(graph.y, 0))[:, None]
        found = -torch.log_softmax(scores.double(), 1).gather(1, chosen)[:, 0]
    losses: np.ndarray = np.nan_to_num(found.numpy(), nan=0.0, posinf=1e30)
    return losses
