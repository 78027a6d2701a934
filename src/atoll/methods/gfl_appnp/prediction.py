"""Predictions by ``softmax(A~_kk h + C_k)`` (eq. 15a): what they are made from, and scores."""

from torch import Tensor

from atoll.cohort import Cohort
from atoll.tasks.base import Task
from atoll.tasks.nodes import node_scores
from atoll.tree import Kinds, Params


def context_of(server: Kinds, rows: Tensor | slice = slice(None)) -> Params:
    """``A~_kk`` as ``own [m]`` and ``C_k`` as ``others [m, c]``, of some clients or all."""
    own, others = server["network"]["mixing"].diagonal(), server["context"]["others"]
    return {"own": own[rows], "others": others[rows]}


def scored(h: Tensor, context: Params, cohort: Cohort, task: Task) -> Params:
    """Scores of ``A~_kk h + C_k`` with an ``h`` for every data point ``[N, c]``."""
    z = context["own"][cohort.batch, None] * h + context["others"][cohort.batch]
    return node_scores(z, cohort, task)
