"""What a step is written in terms of: K >= 1 clients, their data, state, randomness and verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.ops.optimize import SGD, Optimizer, descend
from atoll.ops.span import Span, descend_in_span
from atoll.rng import CohortRng
from atoll.tree import Kinds, Params

Penalty = Callable[[Params], Tensor]


class Trains(Protocol):
    """What clients need of the method they take part in."""

    @property
    def optimizer(self) -> Optimizer: ...
    @property
    def epochs(self) -> int: ...
    @property
    def keep_optimizer(self) -> bool: ...
    @property
    def model(self) -> Any: ...

    def loss(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor: ...
    def scores(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params: ...
    def span(self, cohort: Cohort, *splits: str) -> Span | None: ...


class Client:
    """K >= 1 clients at one step: all of them in a simulation, one at a real site.

    ``cohort`` is their data, ``state`` what they keep to themselves by kind (a step may change it
    in place and put kinds of its own into it), ``rng`` their randomness.
    """

    def __init__(self, method: Trains, cohort: Cohort, rng: CohortRng, state: Kinds) -> None:
        self.method = method
        self.cohort = cohort
        self.rng = rng
        self.state = state
        self.k = cohort.k
        self.dtype = cohort.dtype
        # Each client's loss when its last descent began [K].
        self.first_loss = torch.zeros(cohort.k)

    def on(self, cohort: Cohort) -> Client:
        """The same clients, with the same state, looking at other data."""
        if cohort is self.cohort:
            return self
        return Client(self.method, cohort, self.rng, self.state)

    def fit(self, model: Mapping[str, Tensor], penalty: Penalty | None = None) -> Params:
        """Local training from ``model`` on the task's loss, plus ``penalty(w) [K]`` if given.

        Parameters that ``model`` lacks are the client's own. The result is the client's model from
        now on, and its optimizer's state is kept beside it.
        """
        params = self.owned(model)
        span = self.method.span(self.cohort, "train") if penalty is None else None
        if span is not None and isinstance(self.method.optimizer, SGD):
            walk, self.first_loss = descend_in_span(
                self.method.model, span, params, self.method.optimizer, self.method.epochs
            )
            params = walk.arrive()
        else:

            def objective(w: Params) -> Tensor:
                loss = self.loss(w, training=True)
                return loss if penalty is None else loss + penalty(w)

            params = self.descend(objective, params)
        self.state["model"] = params
        return params

    def owned(self, sent: Mapping[str, Tensor]) -> Params:
        """A model in the client's own memory: what was sent is not the client's to change.

        A fresh allocation of K models costs more in page faults than the copy itself.
        """
        return {
            name: _written(own, sent[name]) if name in sent else own
            for name, own in self.state["model"].items()
        }

    def descend(
        self,
        objective: Callable[..., Tensor],
        *trees: Params,
        active: Tensor | None = None,
        epochs: int | None = None,
        optimizer: str = "optimizer",
        keep: bool | None = None,
    ) -> Any:
        """Local training of one tree of parameters or several, in place.

        ``objective(*trees)`` is one loss per client ``[K]``; clients share nothing, so one backward
        pass over the sum serves all. Clients outside ``active [K]`` stay as they are. The state of
        the optimizer is kept under the kind ``optimizer``, and gone on from if ``keep`` says so,
        by default the method's ``keep_optimizer``. Returns what was trained.
        """
        names = [(i, name) for i, tree in enumerate(trees) for name in tree]

        def parted(joined: Params) -> list[Params]:
            parts: list[Params] = [{} for _ in trees]
            for (i, name), value in zip(names, joined.values(), strict=True):
                parts[i][name] = value
            return parts

        keep = self.method.keep_optimizer if keep is None else keep
        kept = self.state[optimizer] if keep else {}
        joined, state, self.first_loss = descend(
            joined_trees(*trees),
            lambda joined: objective(*parted(joined)),
            self.method.optimizer,
            kept,
            self.method.epochs if epochs is None else epochs,
            active,
        )
        self.state[optimizer] = state
        trained = parted(joined)
        return trained[0] if len(trees) == 1 else tuple(trained)

    def loss(self, params: Mapping[str, Tensor], training: bool = False) -> Tensor:
        """Each client's loss on the task ``[K]``; as training sees it, dropout and all, or not."""
        if training:
            return self.method.loss(params, self.cohort, self.rng)
        with torch.no_grad():
            return self.method.loss(_in_full(params), self.cohort)

    def scores(self, params: Mapping[str, Tensor]) -> Params:
        """How well each client's model does on the task, ``[K, 3]`` per figure."""
        # Cohorts of other kinds have inputs that are not in their graphs.
        same_data = type(self.cohort) is Cohort and self.cohort.one_graph
        if same_data and all(p.stride(0) == 0 for p in params.values()):
            # One model on one graph is one pass, whoever holds it.
            params = {name: p[:1] for name, p in params.items()}
        return self.method.scores(_in_full(params), self.cohort)


def joined_trees(*trees: Mapping[str, Tensor]) -> Params:
    """What one optimizer trains, under names of which no two are equal."""
    if len(trees) == 1:
        return dict(trees[0])
    return {f"{i}.{name}": p for i, tree in enumerate(trees) for name, p in tree.items()}


def _in_full(params: Mapping[str, Tensor]) -> Params:
    """Models that were sent to all alike, one copy per client."""
    return {name: p.contiguous() for name, p in params.items()}


def _written(own: Tensor, sent: Tensor) -> Tensor:
    return own if sent is own else own.detach().copy_(sent)
