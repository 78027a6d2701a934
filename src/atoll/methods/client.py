"""What a step is written in terms of: K >= 1 clients, their data, state, randomness and verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import Model
from atoll.ops.own_rows import OwnRows, Places
from atoll.optimizers.base import Optimizer
from atoll.optimizers.descent import Descent, by_autograd, descend
from atoll.optimizers.fit import Draw, MiniBatches, Penalty, Pull, begin, fit
from atoll.optimizers.rows import by_rows, own_places
from atoll.rng import CohortRng
from atoll.tasks.base import Task
from atoll.tree import Kinds, Params


class Trains(Protocol):
    """What clients need of the method they take part in."""

    @property
    def task(self) -> Task: ...
    @property
    def model(self) -> Model: ...
    @property
    def optimizer(self) -> Optimizer: ...
    @property
    def epochs(self) -> int: ...
    @property
    def keep_optimizer(self) -> bool: ...

    def draw(self, cohort: Cohort, rng: CohortRng) -> Draw | None: ...


class Client:
    """K >= 1 clients at one step: all of them in a simulation, one at a real site.

    ``cohort`` is their data, ``state`` what they keep to themselves by kind (a step may change it
    in place and put kinds of its own into it), ``rng`` their randomness.
    """

    def __init__(
        self,
        method: Trains,
        cohort: Cohort,
        rng: CohortRng,
        state: Kinds,
        lent: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.method = method
        self.cohort = cohort
        self.rng = rng
        self.state = state
        # What was sent, by name: it is not the clients' to change.
        self.lent = lent or {}
        self.k = cohort.k
        self.dtype = cohort.dtype
        # Each client's loss when its last descent began [K].
        self.first_loss = torch.zeros(cohort.k)
        # What a step of the descent under way sees, where that is not all.
        self._seen = MiniBatches(None)

    def on(self, cohort: Cohort) -> Client:
        """The same clients, with the same state, on other data."""
        if cohort is self.cohort:
            return self
        return Client(self.method, cohort, self.rng, self.state, self.lent)

    def fit(
        self, model: Mapping[str, Tensor], penalty: Penalty | None = None, mu: float = 0.0
    ) -> Params:
        """Local training from ``model`` on the task's loss, plus ``penalty(w) [K]`` if given, plus
        ``mu/2 |w - model|^2``.

        Parameters that ``model`` lacks are the client's own. The result is the client's model from
        now on, and its optimizer's state is kept beside it.
        """
        draw = self.method.draw(self.cohort, self.rng)
        plain = penalty is None and draw is None
        places = self._own_places() if plain else None
        params, optimizer, self.first_loss = fit(
            self.method.task,
            self.method.model,
            self.method.optimizer,
            self.owned(model, places),
            self.cohort,
            epochs=self.method.epochs,
            rng=self.rng,
            state_K=self._kept("optimizer"),
            penalty=penalty,
            pull=Pull(mu, model) if mu else None,
            draw=draw,
        )
        self.state |= {"model": params, "optimizer": optimizer}
        return params

    def owned(self, sent: Mapping[str, Tensor], places: Places | None = None) -> Params:
        """A model in the client's own memory: what was sent is not the client's to change.

        A fresh allocation of K models costs more in page faults than the copy itself. Weights on
        features have their common rows once where ``places`` says which rows are clients' own.
        """
        split = self.method.model.on_features if places is not None else ()
        model: Params = {}
        for name, own in self.state["model"].items():
            if places is not None and name in split:
                model[name] = by_rows(own, sent.get(name), places)
            else:
                model[name] = _written(own, sent[name]) if name in sent else own
        return model

    def _own_places(self) -> Places | None:
        """The rows of a first layer that clients train, where the others need not be looked at."""
        if self.method.task.passes(self.method.model, self.cohort, self.rng) is not None:
            return None
        return own_places(self.method.model, self.method.optimizer, self.cohort)

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
        for tree in trees:
            self._refuse_lent(tree)
        names = [(i, name) for i, tree in enumerate(trees) for name in tree]

        def parted(joined: Params) -> list[Params]:
            parts: list[Params] = [{} for _ in trees]
            for (i, name), value in zip(names, joined.values(), strict=True):
                parts[i][name] = value
            return parts

        passes = self.method.task.passes(self.method.model, self.cohort, self.rng)
        self._seen = MiniBatches(passes)
        joined, state, self.first_loss = descend(
            joined_trees(*trees),
            by_autograd(lambda joined: objective(*parted(joined))),
            self.method.optimizer,
            self._kept(optimizer, keep),
            self.method.epochs if epochs is None else epochs,
            active,
            self._seen.steps,
        )
        self.state[optimizer] = state
        trained = parted(joined)
        return trained[0] if len(trees) == 1 else tuple(trained)

    def begin(self, params: Params, *splits: str, keep: bool | None = None) -> Descent:
        """Descent from ``params``, in place, whose steps the caller takes.

        ``splits`` are those whose nodes the losses depend on. The optimizer's state is gone on from
        if ``keep`` says so, by default the method's ``keep_optimizer``.
        """
        self._refuse_lent(params)
        if self.method.draw(self.cohort, self.rng) is not None:
            splits = ()  # which nodes a step will depend on is not known
        task, model, optimizer = self.method.task, self.method.model, self.method.optimizer
        kept = self._kept("optimizer", keep)
        return begin(task, model, optimizer, params, self.cohort, splits, kept)

    def _refuse_lent(self, params: Mapping[str, Tensor]) -> None:
        """Training is in place, and what was sent belongs to others as well."""
        lent = {p.untyped_storage().data_ptr() for p in self.lent.values() if p.numel()}
        for name, p in params.items():
            if p.untyped_storage().data_ptr() in lent:
                raise TypeError(f"'{name}' was sent and would be trained in place; copy it first")

    def _kept(self, optimizer: str, keep: bool | None = None) -> Params:
        """The state that an optimizer goes on from, if it does."""
        keep = self.method.keep_optimizer if keep is None else keep
        return self.state[optimizer] if keep else {}

    def loss(self, params: Mapping[str, Tensor], training: bool = False) -> Tensor:
        """Each client's loss on the task ``[K]``; as training sees it, dropout and all, or not."""
        task, model = self.method.task, self.method.model
        if training:
            part, coins = self._seen.now or (self._drawn(), self.rng)
            return task.training_loss(model, params, part, coins)
        if any(p.requires_grad for p in params.values()):
            raise TypeError("to train on the loss write client.loss(w, training=True)")
        with torch.no_grad():
            return task.loss(model, _in_full(params), self.cohort)

    def gradient(self, params: Mapping[str, Tensor]) -> Params:
        """The gradient of each client's loss as training sees it ``[K, ...]``."""
        return self.method.task.gradient(self.method.model, params, self._drawn(), self.rng)

    def _drawn(self) -> Cohort:
        """The part of the data that the next training step sees."""
        draw = self.method.draw(self.cohort, self.rng)
        return self.cohort if draw is None else draw()

    def scores(self, params: Mapping[str, Tensor]) -> Params:
        """How well each client's model does on the task, ``[K, 3]`` per figure."""
        if self.cohort.one_graph and all(p.stride(0) == 0 for p in params.values()):
            # One model on one graph is one pass, whoever holds it.
            params = {name: p[:1] for name, p in params.items()}
        with torch.no_grad():
            return self.method.task.scores(self.method.model, _in_full(params), self.cohort)


def joined_trees(*trees: Mapping[str, Tensor]) -> Params:
    """What one optimizer trains, under names of which no two are equal."""
    if len(trees) == 1:
        return dict(trees[0])
    return {f"{i}.{name}": p for i, tree in enumerate(trees) for name, p in tree.items()}


def _in_full(params: Mapping[str, Tensor]) -> Params:
    """Models that were sent to all alike, one copy per client."""
    return {n: p if isinstance(p, OwnRows) else p.contiguous() for n, p in params.items()}


def _written(own: Tensor, sent: Tensor) -> Tensor:
    return own if sent is own else own.detach().copy_(sent)
