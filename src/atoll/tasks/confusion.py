"""What test nodes are taken for: counts per client, and how precision falls as recall grows."""

from __future__ import annotations

import numpy as np
import polars

from atoll.graph import SPLITS
from atoll.tasks.metrics import descending
from atoll.tasks.pooled import Listener, Scored

_TEST = SPLITS.index("test")
_MOST_POINTS = 80
# Clients times classes squared: beyond, the counts are those of all clients together.
_MOST_COUNTS = 100_000
TOGETHER = -1


def confusion_table(listener: Listener) -> polars.DataFrame:
    """One row per client and pair of classes that occurs: ``client``, ``actual``, ``predicted``,
    ``nodes``, of test nodes. Without rows where nobody was heard, or on two tasks.

    Where that would be too many, ``client`` is -1: all of them together.
    """
    found = []
    for clients, part in {} if listener.twice else listener.heard.items():
        c = part.cells.classes
        counts = part.cells.confusion(part.guess).reshape(len(clients), len(SPLITS), c, c)[:, _TEST]
        if counts.size > _MOST_COUNTS:
            clients, counts = (TOGETHER,), counts.sum(0, keepdims=True)
        k, actual, predicted = np.nonzero(counts)
        names = _class_names(part)
        found.append(
            polars.DataFrame(
                {
                    "client": np.array(clients, dtype=np.int64)[k],
                    "actual": names[actual],
                    "predicted": names[predicted],
                    "nodes": counts[k, actual, predicted].astype(np.int64),
                }
            )
        )
    return polars.concat(found) if found else polars.DataFrame()


def precision_recall_table(listener: Listener) -> polars.DataFrame:
    """The curve of each ranked class over all test nodes together: ``class``, ``recall``,
    ``precision``, ``share`` of its nodes and ``pr_auc``, the area (average precision)."""
    together = None if listener.twice else listener.tests()
    if together is None:
        return polars.DataFrame()
    first, y, scores = together.first, together.y, together.ranking_scores
    names, found = _class_names(first), []
    for row, label in zip(scores, first.cells.ranked, strict=True):
        right = y == label
        if not 0 < right.sum() < len(right):
            continue
        recall, precision, area = precision_recall(row, right)
        found.append(
            polars.DataFrame({"recall": recall, "precision": precision}).with_columns(
                polars.lit(str(names[label])).alias("class"),
                polars.lit(float(right.mean())).alias("share"),
                polars.lit(area).alias("pr_auc"),
            )
        )
    return polars.concat(found) if found else polars.DataFrame()


def precision_recall(
    scores: np.ndarray, right: np.ndarray, most: int = _MOST_POINTS
) -> tuple[np.ndarray, np.ndarray, float]:
    """Recall and precision at each score down from the largest, thinned to ``most`` points, and
    the average precision of all of them. Equal scores (as float32) are one point."""
    # Numbers are sorted many times faster than places are found, and ties may come in any order.
    key = descending(scores) << 1 | right
    key.sort()
    ends = np.flatnonzero(np.append(np.diff(key >> 1) != 0, True))
    tp = (key & 1).cumsum()[ends]
    recall, precision = tp / right.sum(), tp / (ends + 1)
    area = float((np.diff(recall, prepend=0.0) * precision).sum())
    if len(ends) > most:
        chosen = np.unique(np.searchsorted(recall, np.linspace(recall[0], 1.0, most)))
        recall, precision = recall[chosen], precision[chosen]
    return recall, precision, area


def _class_names(part: Scored) -> np.ndarray:
    """A name per class; a model may tell fewer apart than the graph has."""
    c = part.cells.classes
    known = part.class_names if len(part.class_names) >= c else tuple(map(str, range(c)))
    return np.array(known[:c], dtype=object)
