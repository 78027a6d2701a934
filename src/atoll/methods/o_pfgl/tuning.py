"""How strongly O-pFGL's clients hold on to the common model at each node, and when they stop."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, one_hot

from atoll.cohort import Cohort
from atoll.methods.client import Client
from atoll.ops.ragged import segment_mean, segment_sum
from atoll.ops.sparse import Sparse, block_diagonal, neighbour_operator
from atoll.optimizers.base import Optimizer
from atoll.optimizers.descent import by_autograd, descend
from atoll.tree import Params


def class_trust(cohort: Cohort) -> Tensor:
    """``1 / (1 + ln(1 + h_c))`` of every class ``[K, C]``: small where a client knows a class well.

    ``h_c`` adds up, over its training nodes of the class, the share of their training neighbours
    that are of the same class; zero for a node without one.
    """
    train = torch.zeros(len(cohort.y), dtype=torch.bool)
    train[cohort.rows("train")] = True
    source, target = cohort.edges
    both = train[source] & train[target]
    source, target = source[both], target[both]
    same = (cohort.y[source] == cohort.y[target]).to(cohort.dtype)
    share = segment_mean(same, source, len(cohort.y))
    rows = cohort.rows("train")
    cell = cohort.batch[rows] * cohort.classes + cohort.y[rows]
    h = segment_sum(share[rows], cell, cohort.k * cohort.classes).view(cohort.k, cohort.classes)
    return 1 / (1 + torch.log1p(h))


def label_shares(cohort: Cohort, steps: int, alpha: float) -> Tensor:
    """Training labels spread over the graph ``[N, C]``; uniform where none arrives.

    ``Y <- alpha D^-1/2 A D^-1/2 Y + (1 - alpha) Y0``, held between 0 and 1.
    """
    rows = cohort.rows("train")
    labels = one_hot(cohort.y[rows], cohort.classes).to(cohort.dtype)
    first = torch.zeros(len(cohort.y), cohort.classes, dtype=cohort.dtype)
    first = first.index_copy(0, rows, labels)
    blocks = [neighbour_operator(graph.weighted_adjacency) for graph in cohort.graphs]
    operator = Sparse(block_diagonal(blocks), cohort.dtype)
    y = first
    for _ in range(steps):
        y = (alpha * (operator @ y) + (1 - alpha) * first).clamp(0.0, 1.0)
    return torch.where(y.sum(1, keepdim=True) == 0, 1 / cohort.classes, y)


def divergence(logits: Tensor, teacher: Tensor, strength: Tensor, cohort: Cohort) -> Tensor:
    """``(1/n) sum_i gamma_i KL(teacher_i || student_i)`` of each client ``[K]``."""
    each = kl_div(log_softmax(logits, 1), teacher.softmax(1), reduction="none").sum(1)
    return segment_mean(strength * each, cohort.batch, cohort.k)


def trained(
    client: Client,
    params_K: Params,
    loss: Callable[[Params], Tensor],
    optimizer: Optimizer,
    steps: int,
    every: int,
    patience: int,
) -> Params:
    """Descent that each client ends by its own validation nodes; returns its best parameters.

    Validation accuracy is looked at ``every`` so many steps, and a client stops after ``patience``
    looks without a better one. Clients without validation nodes take all steps.
    """
    params = {name: p.clone() for name, p in params_K.items()}
    best = {name: p.clone() for name, p in params.items()}
    best_K = torch.full((client.k,), -1.0, dtype=torch.float64)
    waited = torch.zeros(client.k, dtype=torch.int64)
    active = torch.ones(client.k, dtype=torch.bool)
    state = optimizer.init(params)
    for start in range(0, steps, every):
        now = min(every, steps - start)
        params, state, _ = descend(params, by_autograd(loss), optimizer, state, now, active)
        scores = client.scores(params)
        accuracy, blind = scores["accuracy"][:, 1], scores["nodes"][:, 1] == 0
        better = active & ((accuracy > best_K) | blind)
        best_K = torch.where(better, accuracy, best_K)
        for name, p in params.items():
            best[name][better] = p[better]
        waited = torch.where(better, 0, waited + 1)
        active = active & (waited < patience)
        if not bool(active.any()):
            break
    return best
