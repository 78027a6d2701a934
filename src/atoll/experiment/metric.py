"""Which metric the best round is chosen by, and what is to be known of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atoll.data.check_training import RARE
from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.graph import Graph
from atoll.tasks.metrics import RANKING, always
from atoll.tasks.nodes import Classification, training_counts


def metric_of(experiment: Experiment) -> str:
    """The metric, if nothing is known of the data: the one that was asked for, or the task's."""
    asked = experiment.run.metric
    return experiment.method.task.metric if asked == "auto" else asked


def chosen_metric(experiment: Experiment, graphs: Sequence[Graph]) -> tuple[str, str]:
    """The metric, and a sentence on a rare class if there is one, else an empty text.

    ``auto`` is the task's metric, and PR-AUC where one of two classes is rare and some client can
    be scored by it in validation.
    """
    asked, metric = experiment.run.metric, metric_of(experiment)
    task = experiment.method.task
    if not isinstance(task, Classification):
        return metric, ""
    measurable = any(len(np.unique(graph.y[graph.val])) > 1 for graph in graphs)
    if metric in RANKING and not measurable:
        raise AtollError(
            f"no round can be chosen by {metric}, since no client has validation nodes of two "
            f"classes; choose run.metric = 'accuracy' or give split.val more."
        )
    found = rare_class(graphs)
    if found is None:
        return metric, ""
    rare, share = found
    if asked == "auto" and measurable:
        metric = "pr_auc"
    names = graphs[0].class_names or ("0", "1")
    test = np.concatenate([graph.y[graph.test] for graph in graphs])
    majority = always(1 - rare, test)
    return metric, (
        f"class '{names[rare]}' is rare ({100 * share:.1f} % of the training nodes): always "
        f"answering '{names[1 - rare]}' would score {100 * majority:.2f} % accuracy and "
        f"{100 * (1 - majority):.2f} % PR-AUC; the best round is chosen by {metric}."
    )


def rare_class(graphs: Sequence[Graph]) -> tuple[int, float] | None:
    """The class of two that few training nodes have, and their share; None if neither is rare."""
    counts = training_counts(graphs)
    if graphs[0].classes != 2 or counts.sum() == 0:
        return None
    rare = int(counts[0] >= counts[1])
    share = float(counts[rare] / counts.sum())
    return (rare, share) if share < RARE else None
