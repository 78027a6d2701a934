"""Of two classes: which one a deployed run is about, and whether it is too rare for accuracy.

A site says three words of its training and validation nodes, no counts; the server lets each site
count by its training nodes, once per run, since sites that come later must not change the measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atoll.experiment.config import Experiment
from atoll.experiment.metric import metric_of, rare_class
from atoll.graph import Graph
from atoll.tasks.nodes import Classification, rarer_class


def words_on_classes(graph: Graph) -> dict[str, Any]:
    """What a site says: its rarer class, whether that is rare, whether validation has both."""
    if graph.classes != 2:
        return {"rarer": -1, "rare": False, "ranks": False}
    return {
        "rarer": rarer_class([graph]),
        "rare": rare_class([graph]) is not None,
        "ranks": len(np.unique(graph.y[graph.val])) == 2,
    }


def wrong_words(facts: Mapping[str, Any]) -> str:
    """What is wrong with a site's words on its classes, or nothing."""
    rarer = facts.get("rarer", -1)
    if type(rarer) is not int or not -1 <= rarer < max(facts["classes"], 1):
        return "it names a class that there is not"
    if any(type(facts.get(word, False)) is not bool for word in ("rare", "ranks")):
        return "it does not say whether a class is rare"
    return ""


def agreed(known: Mapping[str, Mapping[str, Any]], experiment: Experiment) -> dict[str, Any]:
    """The positive class by what sites say (-1: they don't), the metric, and a sentence on it."""
    votes: dict[int, int] = {}
    rare = 0
    for facts in known.values():
        rarer, train = int(facts.get("rarer", -1)), int(facts["train"])
        votes[rarer] = votes.get(rarer, 0) + train
        rare += train * bool(facts.get("rare", False))
    positive = max(votes, key=lambda rarer: (votes[rarer], rarer), default=-1)
    metric, said = metric_of(experiment), ""
    if isinstance(experiment.method.task, Classification) and 2 * rare > sum(votes.values()):
        if experiment.run.metric == "auto" and any(f.get("ranks", False) for f in known.values()):
            metric = "pr_auc"
        said = (
            f"a class is rare at sites that hold most training nodes, so that always answering the "
            f"other would look good by accuracy; the best round is chosen by {metric}."
        )
    return {"positive": positive, "metric": metric, "said": said}
