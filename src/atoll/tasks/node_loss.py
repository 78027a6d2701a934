"""The loss of classifying training nodes, and what each node counts in it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.ops.ragged import segment_sum

CLASS_WEIGHTS = "class weights"


def nll(logits: Tensor, cohort: Cohort, class_weight: str = "none") -> Tensor:
    """Each client's mean cross-entropy over its training nodes, ``[N, classes] -> [K]``."""
    return nll_of_targets(logits[cohort.rows("train")], cohort, class_weight)


def nll_of_targets(logits: Tensor, cohort: Cohort, class_weight: str = "none") -> Tensor:
    """The same from the scores of training nodes alone, ``[R, classes] -> [K]``."""
    _, y, client, count = training_nodes(cohort)
    losses = cross_entropy(logits, y, reduction="none")
    if class_weight == "balanced":
        losses = losses * _balanced(cohort).to(losses.dtype)
    return segment_sum(losses, client, cohort.k) / count


def nll_errors(logits: Tensor, cohort: Cohort, class_weight: str = "none") -> Tensor:
    """The gradient of :func:`nll` with respect to the class scores ``[N, classes]``.

    That is ``w_i (softmax - one-hot) / n_k`` at the n_k training nodes of client k, else zero.
    """
    rows, y, client, count = training_nodes(cohort)

    def shares() -> tuple[Tensor, Tensor]:
        right = torch.zeros((len(rows), logits.shape[1]), dtype=logits.dtype)
        share = 1.0 / count[client, None].to(logits.dtype)
        if class_weight == "balanced":
            share = share * _balanced(cohort)[:, None].to(logits.dtype)
        return right.scatter_(1, y[:, None], 1.0), share

    key = f"training shares of {logits.shape[1]} classes, {class_weight}"
    right, share = cohort.cached(key, shares)
    errors = logits[rows].softmax(1).sub_(right).mul_(share)
    return torch.zeros_like(logits).index_copy_(0, rows, errors)


def shares_of_nodes(cohort: Cohort, like: Tensor, class_weight: str) -> Tensor:
    """What each training node counts in its client's loss ``[R]``."""

    def build() -> Tensor:
        _, _, client, count = training_nodes(cohort)
        share = 1.0 / count[client].to(like.dtype)
        return share * _balanced(cohort).to(like.dtype) if class_weight == "balanced" else share

    return cohort.cached(f"shares of training nodes, {class_weight}, {like.dtype}", build)


def _balanced(cohort: Cohort) -> Tensor:
    """What training nodes count so that each client's classes count the same ``[R]``."""

    def build() -> Tensor:
        _, y, client, _ = training_nodes(cohort)
        return class_weights(cohort)[client, y]

    return cohort.cached("balanced class weights", build)


def class_weights(cohort: Cohort) -> Tensor:
    """What a training node of each class counts at each client ``[K, classes]``."""

    def build() -> Tensor:
        _, y, client, count = training_nodes(cohort)
        cell = client * cohort.classes + y
        held = torch.bincount(cell, minlength=cohort.k * cohort.classes).view(cohort.k, -1)
        return count[:, None].double() / ((held > 0).sum(1, keepdim=True) * held).clamp(min=1)

    return cohort.cached(CLASS_WEIGHTS, build)


def training_nodes(cohort: Cohort) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training nodes, their classes and clients, and how many each client has, at least one."""

    def find() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = cohort.rows("train")
        client = cohort.batch[rows]
        return rows, cohort.y[rows], client, torch.bincount(client, minlength=cohort.k).clamp(min=1)

    return cohort.cached("training nodes", find)
