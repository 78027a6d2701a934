"""Each client's model on the whole graph: what only a simulation can see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.device import of_numpy, to_numpy
from atoll.experiment.history import History
from atoll.federation.calls import Replies
from atoll.graph import Graph
from atoll.methods.base import Method
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, under

_ABOUT = 1e-9


class WholeGraph:
    """Fed-GALA's two ways of testing, as further scores of a round.

    ``whole`` is the score of a client's model on the whole graph's nodes (the thesis's *global*
    testing). The model of one client at a time looks at the graph, so memory does not grow with
    their number, and only in rounds whose mean validation score is the best so far, since no other
    can become the figure reported, and in the last one; the other rounds have none.

    The thesis averages clients by the weights with which the server averages their models.
    ``weighted_SCORE`` is a client's score times its weight over the mean weight: its plain mean
    over clients is the thesis's average.
    """

    def __init__(self, method: Method, whole: Graph, clients: Cohort) -> None:
        self.method = method
        self.cohort = Cohort([whole], dtype=clients.dtype)
        own = clients.labelled
        if isinstance(method, GlobalModel):
            own = method.weight(Client(method, clients, CohortRng(0, clients.clients, 0, ""), {}))
        self.weight = dict(zip(clients.clients, own.tolist(), strict=True))
        self.best = -np.inf
        self._scored: tuple[Params, np.ndarray] | None = None

    def catch_up(self, history: History) -> None:
        """Know what the rounds before were like, when a run is resumed."""
        val = f"val_{self.method.task.metric}"
        means = history.table().group_by("round").mean()[val].drop_nulls()
        self.best = max([self.best, *means.to_list()])

    def added_to(self, replies: Replies, clients: Tree, last: bool = False) -> Replies:
        """A round's scores with the further ones, given the clients' states."""
        metric = self.method.task.metric
        scores = {name: to_numpy(leaf) for name, leaf in replies.body.items()}
        local = np.where(scores["metric/nodes"] > 0, scores[f"metric/{metric}"], np.nan)
        known = local[:, 1][~np.isnan(local[:, 1])]
        val = float(known.mean()) if len(known) else -np.inf
        whole = np.full_like(local, np.nan)
        if last or val >= self.best - _ABOUT:
            self.best = max(self.best, val)
            whole = self._scores(clients)
        weight = np.array([self.weight[client] for client in replies.clients])[:, None]
        further = {
            "whole": whole,
            f"weighted_{metric}": local * _shares(weight, local),
            "weighted_whole": whole * _shares(weight, whole),
        }
        more: Tree = {f"metric/{name}": of_numpy(found) for name, found in further.items()}
        return replace(replies, body=replies.body | more)

    def _scores(self, clients: Tree) -> np.ndarray:
        """``[K, 3]``, one client after the other; models that have not changed keep theirs."""
        model_K = under(clients, "model")
        if self._scored is not None and _same(self._scored[0], model_K):
            return self._scored[1]
        rows = []
        for k in range(len(self.weight)):
            one = {name: p[k : k + 1] for name, p in model_K.items()}
            with torch.no_grad():
                scores = self.method.task.scores(self.method.model, one, self.cohort)
            rows.append(scores[self.method.task.metric])
        found = np.concatenate([to_numpy(row) for row in rows])
        self._scored = {name: p.clone() for name, p in model_K.items()}, found
        return found


def _same(one: Params, other: Params) -> bool:
    return all(torch.equal(p, other[name]) for name, p in one.items())


def _shares(weight: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Weights over their mean, for each split over the clients that have a score there."""
    there = np.where(np.isnan(scores), 0.0, weight)
    count = (there > 0).sum(axis=0)
    shares: np.ndarray = weight * count / np.maximum(there.sum(axis=0), np.finfo(float).tiny)
    return shares
