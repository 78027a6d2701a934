"""Scores of a classifier besides its accuracy, of many cells (client and split) at once.

Every function is pure and knows no client: nodes have a class, a cell and scores. A figure that a
cell does not have (no node, no node of a class that it is about, nodes of one class only) is
:data:`NO_SCORE`, since replies hold finite numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atoll.kernels import in_use, kernels

# In this order in an array of scores; accuracy and log loss (``loss``) are beside them.
RANKING = ("roc_auc", "pr_auc", "recall_at_precision")
EXTENDED = ("balanced_accuracy", "macro_f1", "f1", *RANKING)
# What the best round may be chosen by where nodes are classified.
NODE_METRICS = ("accuracy", "loss", *EXTENDED)
# The one that is the better the lower it is.
LOSS = "loss"
NO_SCORE = -1.0
_SCORE_BITS = 33
# So many nodes, counted once per class, are ranked at a time: ranking takes ten times their scores.
_RANKED_AT_ONCE = 2**18


@dataclass(frozen=True)
class Cells:
    """Which nodes are scored together: class ``y [n]`` and ``cell [n]`` of each node, below
    ``count``; there are ``classes``, and nodes are ranked for those in ``ranked``.

    For each class ranked, the nodes of a cell form a segment; there are ``R count`` of them.
    """

    y: np.ndarray
    cell: np.ndarray
    count: int
    classes: int
    ranked: tuple[int, ...]

    def __post_init__(self) -> None:
        # Only what is small is derived here: many parts of a federation may be kept for a while.
        members = (self.cell[self.y == c] for c in self.ranked)
        positives = np.stack([np.bincount(cells, minlength=self.count) for cells in members])
        object.__setattr__(self, "_size", np.bincount(self.cell, minlength=self.count))
        object.__setattr__(self, "_positives", positives)

    def extended(
        self, guess: np.ndarray, scores: np.ndarray | None, positive: int, precision: float
    ) -> np.ndarray:
        """All figures of :data:`EXTENDED`, ``[count, 6]``.

        ``guess [n]`` is each node's predicted class, ``scores [R, n]`` how much it looks like each
        of the ranked classes; without it there are no areas and recalls. ``positive`` is the class
        that ``f1`` is of, -1 if there is none.
        """
        figures = np.full((self.count, len(EXTENDED)), NO_SCORE)
        if in_use():
            labels = self.y, guess, self.cell, self.classes
            kernels("confusion").figures(*labels, positive, figures)
        else:
            table = self.confusion(guess)
            columns = balanced_accuracy(table), macro_f1(table), f1_of(table, positive)
            figures[:, : len(columns)] = np.stack(columns, axis=1)
        if scores is not None:
            figures[:, -len(RANKING) :] = self.ranking(scores, precision).T
        return figures

    def confusion(self, guess: np.ndarray) -> np.ndarray:
        """How many nodes of each class (rows) are taken for each ``[count, classes, classes]``."""
        c = self.classes
        place = (self.cell * c + self.y) * c + guess
        counts = np.bincount(place, minlength=self.count * c * c)
        return counts.reshape(self.count, c, c)

    def ranking(self, scores: np.ndarray, precision: float) -> np.ndarray:
        """ROC-AUC, PR-AUC and recall at a precision, ``[3, count]``: means over the ranked classes
        that some but not all nodes of the cell have; without such a class there is no score.

        Scores ``[R, n]`` are compared as float32: what differs by rounding only is a tie. With
        ``tp`` and ``n`` the true positives and all nodes that score at least as much as a positive,
        ROC-AUC is the share of pairs in which the positive scores more than the other, ties
        counting half; PR-AUC the mean of ``tp / n`` over positives (average precision); the recall
        the largest ``tp`` with ``tp / n >= precision``, as a share of all positives.
        """
        at_once = max(1, _RANKED_AT_ONCE // max(1, len(self.y)))
        parts = [slice(i, i + at_once) for i in range(0, len(self.ranked), at_once)]
        shares = [self._ranking(scores[part], part, precision) for part in parts]
        positives, size = self._positives, self._size  # type: ignore[attr-defined]
        known = (positives > 0) & (positives < size)
        return _mean(np.concatenate(shares, axis=1), known, axis=1)

    def _ranking(self, scores: np.ndarray, part: slice, precision: float) -> np.ndarray:
        """The same of each of some ranked classes, ``[3, classes, count]``."""
        ranked = np.array(self.ranked[part])[:, None]
        positives = self._positives[part].ravel()  # type: ignore[attr-defined]
        size = np.tile(self._size, len(ranked))  # type: ignore[attr-defined]
        # By segment, score from the largest down, and whether the node is of the class.
        key_RN = (np.arange(len(ranked))[:, None] * self.count + self.cell) << _SCORE_BITS
        key_RN |= self.y == ranked
        key_RN += descending(scores) << 1
        key = key_RN.ravel()
        key.sort()
        score = key[np.flatnonzero(key & 1)] >> 1
        segment = score >> (_SCORE_BITS - 1)
        start = (size.cumsum() - size)[segment]
        first = (positives.cumsum() - positives)[segment]
        # Ties of a positive: all of them above, and all of them with it.
        n_above = np.searchsorted(key, score << 1) - start
        n = np.searchsorted(key, (score + 1) << 1) - start
        tp_above = np.searchsorted(score, score) - first
        tp = np.searchsorted(score, score, side="right") - first
        negatives = size - positives
        outscored = negatives[segment] - ((n - tp) + (n_above - tp_above)) / 2
        exact = tp / n
        enough = exact >= precision
        recall = np.zeros(len(size))
        recall[segment[enough]] = tp[enough]  # ascending within a segment: the last one stays
        sums = np.stack(
            [
                np.bincount(segment, outscored, len(size)) / np.maximum(negatives, 1),
                np.bincount(segment, exact, len(size)),
                recall,
            ]
        )
        shares: np.ndarray = sums / np.maximum(positives, 1)
        return shares.reshape(3, len(ranked), self.count)


def balanced_accuracy(confusion: np.ndarray) -> np.ndarray:
    """The mean recall of the classes that a cell has, ``[m, c, c] -> [m]``."""
    count = confusion.sum(2)
    return _mean(_diagonal(confusion) / np.maximum(count, 1), count > 0, axis=1)


def macro_f1(confusion: np.ndarray) -> np.ndarray:
    """The mean F1 of the classes that a cell has or predicts, ``[m, c, c] -> [m]``."""
    both = confusion.sum(1) + confusion.sum(2)
    return _mean(2 * _diagonal(confusion) / np.maximum(both, 1), both > 0, axis=1)


def f1_of(confusion: np.ndarray, positive: int) -> np.ndarray:
    """The F1 of one class, ``2 tp / (2 tp + fp + fn)``, in cells that have it ``[m]``."""
    if positive < 0:
        return np.full(len(confusion), NO_SCORE)
    count = confusion[:, positive].sum(1)
    both = count + confusion[:, :, positive].sum(1)
    f1 = 2 * confusion[:, positive, positive] / np.maximum(both, 1)
    return np.where(count > 0, f1, NO_SCORE)


def always(label: int, y: np.ndarray) -> float:
    """The accuracy of always answering one class."""
    return float(np.mean(y == label)) if len(y) else float("nan")


def never_predicted(y: np.ndarray, guess: np.ndarray, classes: int) -> list[int]:
    """Classes that some node has and no node is taken for."""
    there, taken = (np.bincount(part, minlength=classes) > 0 for part in (y, guess))
    return np.flatnonzero(there & ~taken).tolist()


def better(metric: str, one: float, other: float) -> bool:
    """Whether a score is better than another."""
    return one < other if metric == LOSS else one > other


def best_of(metric: str, scores: Sequence[float]) -> int:
    """The position of the first best one."""
    return int(np.argmin(scores) if metric == LOSS else np.argmax(scores))


def _diagonal(confusion: np.ndarray) -> np.ndarray:
    return np.diagonal(confusion, axis1=1, axis2=2)


def _mean(values: np.ndarray, known: np.ndarray, axis: int) -> np.ndarray:
    """The mean of what is known, else no score."""
    count = known.sum(axis - (values.ndim - known.ndim))
    total = np.where(known, values, 0.0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), NO_SCORE)


def descending(scores: np.ndarray) -> np.ndarray:
    """Whole numbers in ``[0, 2^32)`` that order float32 scores from the largest down."""
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32)  # -0 is 0
    rising = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    whole: np.ndarray = (~rising).astype(np.int64) + 2**31
    return whole
