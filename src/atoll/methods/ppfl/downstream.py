"""How good node embeddings are: classifiers that know nothing but them."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

Classifier = Literal["mlp", "svc"]
# The share of its mean eigenvalue that is added to a covariance, so that it can be inverted.
_RIDGE = 0.01


def cross_validated(
    classifier: Classifier, h: np.ndarray, y: np.ndarray, folds: int, seed: int
) -> float:
    """The micro-averaged F1 score of a scikit-learn classifier over all folds ``h [n, d], y [n]``.

    With one label per node that is the share of nodes that are classified right while their fold is
    left out. NaN where no two nodes have the same label: then nothing can be learnt.
    """
    if np.bincount(y).max(initial=0) < 2:
        return float("nan")
    return int(right_where_left_out(classifier, h, y, folds, seed).sum()) / len(y)


def right_where_left_out(
    classifier: Classifier, h: np.ndarray, y: np.ndarray, folds: int, seed: int
) -> np.ndarray:
    """Which nodes are classified right while their fold is left out ``[n]``.

    Folds are stratified and drawn from the seed; classifiers have scikit-learn's defaults. None is
    right where no two nodes have the same label.
    """
    from sklearn.model_selection import StratifiedKFold

    right = np.zeros(len(y), dtype=bool)
    largest = int(np.bincount(y).max(initial=0))
    if largest < 2:
        return right
    with warnings.catch_warnings():
        # A class with fewer nodes than there are folds; an MLP that could learn for longer.
        warnings.filterwarnings("ignore", module="sklearn")
        parts = StratifiedKFold(min(folds, largest), shuffle=True, random_state=seed)
        for train, test in parts.split(h, y):
            right[test] = _predicted(classifier, h[train], y[train], h[test], seed) == y[test]
    return right


def fold_score(
    classifier: Classifier,
    h: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    held_out: np.ndarray,
    seed: int,
) -> float:
    """The micro-averaged F1 score on some nodes of a classifier that is fitted to others.

    One fold of an ordinary cross-validation, in which the embeddings, too, were learnt from the
    labels of the nodes that the classifier is fitted to. NaN where there is nothing to fit it to,
    or nothing to score.
    """
    if not train.any() or not held_out.any():
        return float("nan")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        found = _predicted(classifier, h[train], y[train], h[held_out], seed)
    return float((found == y[held_out]).mean())


def _predicted(
    classifier: Classifier, h: np.ndarray, y: np.ndarray, unseen: np.ndarray, seed: int
) -> np.ndarray:
    if (y == y[0]).all():
        return np.full(len(unseen), y[0])
    found: np.ndarray = _fresh(classifier, seed).fit(h, y).predict(unseen)
    return found


def _fresh(classifier: Classifier, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    return SVC() if classifier == "svc" else MLPClassifier(random_state=seed)


def discriminant(h: Tensor, y: Tensor, train: Tensor, classes: int) -> Tensor:
    """Class scores of all nodes by linear discriminant analysis of some ``[n, d] -> [n, classes]``.

    ``log p(h | c) + log p(c)`` for Gaussian classes with a common covariance, a little ridge on it
    and one more node of each class than there is. In closed form, so it costs next to nothing per
    round and is the same everywhere.
    """
    h = h.double()
    known, member = h[train], one_hot(y[train], classes).double()
    count = member.sum(0)
    overall = known.mean(0) if len(known) else h.new_zeros(h.shape[1])
    mean = (member.T @ known + overall) / (count[:, None] + 1)
    rest = known - mean[y[train]]
    covariance = rest.T @ rest / max(len(known), 1)
    scale = float(covariance.diagonal().mean()) or 1.0
    covariance = covariance + _RIDGE * scale * torch.eye(h.shape[1], dtype=h.dtype)
    weights: Tensor = torch.linalg.solve(covariance, mean.T)
    prior = ((count + 1) / (count.sum() + classes)).log()
    return h @ weights - (mean.T * weights).sum(0) / 2 + prior
