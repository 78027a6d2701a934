"""Local training: the one place that chooses where steps are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.dual import dual_of
from atoll.models.base import Model
from atoll.optimizers.base import Optimizer
from atoll.optimizers.descent import Descent, Slope, by_autograd, descend
from atoll.optimizers.dual import DualDescent
from atoll.optimizers.rows import agreeing, apart, in_full
from atoll.optimizers.sgd import SGD
from atoll.optimizers.steps import adapted
from atoll.rng import CohortRng
from atoll.tasks.base import Pass, Task
from atoll.tree import Params

Penalty = Callable[[Params], Tensor]
Draw = Callable[[], Cohort]


class Pull(NamedTuple):
    """``mu/2 |w - w_t|^2`` beside a loss, towards the very ``w_t`` that descent begins at.

    ``strength`` is mu, the same for all clients. Parameters that ``towards [K, ...]`` lacks are
    free.
    """

    strength: float
    towards: Mapping[str, Tensor]


class Fitted(NamedTuple):
    """Trained parameters, the optimizer's state, the losses that training began with ``[K]``."""

    params_K: Params
    state_K: Params
    loss_K: Tensor


def dual_cohort(
    task: Task, model: Model, optimizer: Optimizer, cohort: Cohort, splits: Sequence[str]
) -> Cohort | None:
    """The cohort in the dual of few nodes, where descent is plain and cheaper there.

    ``splits`` are those whose nodes the losses depend on; with none of them it is not known on
    which, and steps are taken on the weights: None.
    """
    layer = model.first_layer
    plain = isinstance(optimizer, SGD) and optimizer.momentum == 0.0
    if not splits or not plain or layer is None or not task.depends_on_splits:
        return None
    return dual_of(cohort, layer, model.reach, *splits)


def begin(
    task: Task,
    model: Model,
    optimizer: Optimizer,
    params_K: Params,
    cohort: Cohort,
    splits: Sequence[str],
    state_K: Params | None = None,
) -> Descent:
    """Descent whose steps the caller takes: in the dual of the ``splits``, or on the weights."""
    dual = dual_cohort(task, model, optimizer, cohort, splits)
    if dual is not None:
        return DualDescent(dual, params_K, optimizer)
    return Descent(cohort, params_K, optimizer, state_K)


def fit(
    task: Task,
    model: Model,
    optimizer: Optimizer,
    params_K: Params,
    cohort: Cohort,
    *,
    epochs: int,
    rng: CohortRng | None,
    state_K: Params | None = None,
    penalty: Penalty | None = None,
    pull: Pull | None = None,
    draw: Draw | None = None,
) -> Fitted:
    """``epochs`` full-batch steps on the task's loss, plus a penalty per client ``[K]`` or a pull
    if given; or as many passes in mini-batches, if the task has them.

    ``draw`` gives the part of the cohort that the next step is to see, if not all of it. Parameters
    are updated in place.
    """
    seen = MiniBatches(None if rng is None else task.passes(model, cohort, rng))
    all_at_once = all(other is None for other in (penalty, pull, draw, seen.one_pass))
    splits = ("train",) if all_at_once else ()
    dual = dual_cohort(task, model, optimizer, cohort, splits)
    if dual is not None:
        descent = DualDescent(dual, in_full(params_K), optimizer)
        with torch.no_grad():
            loss_K = task.loss(model, descent.params, dual)
        return Fitted(_descended(task, model, descent, epochs), descent.state, loss_K)

    def loss(p: Params) -> Tensor:
        task_K = task.training_loss(model, p, *seen_now())
        return task_K if penalty is None else task_K + penalty(p)

    def seen_now() -> tuple[Cohort, CohortRng | None]:
        return seen.now or (cohort if draw is None else draw(), rng)

    def slope(p: Params) -> tuple[Tensor, Mapping[str, Any]]:
        now = seen_now() if penalty is None else None
        with torch.no_grad():
            found = None if now is None else task.written_out(model, p, *now)
        if found is None:
            return by_autograd(loss if now is None else lambda p: task.loss(model, p, *now))(p)
        loss_K, pull = found
        with torch.no_grad():
            return loss_K, pull(torch.ones_like(loss_K))

    params_K, state_K = agreeing(params_K, state_K or {}, cohort)
    way = slope if pull is None or not pull.strength else pulled(slope, pull)
    return Fitted(*descend(params_K, way, optimizer, state_K, epochs, steps=seen.steps))


def pulled(slope: Slope, pull: Pull) -> Slope:
    """The slope with a pull beside the loss, which is zero where descent begins: the first step
    does not look at it."""
    away = False

    def with_pull(p: Params) -> tuple[Tensor, Mapping[str, Any]]:
        nonlocal away
        loss_K, grads = slope(p)
        if not away:
            away = True
            return loss_K, grads
        more: dict[str, Any] = {}
        with torch.no_grad():
            for name, towards in pull.towards.items():
                found = grads[name]
                made = found if isinstance(found, Tensor) else found.made()
                for of, (w, w_t) in apart(name, p[name], towards).items():
                    pulls = (w - w_t).mul_(pull.strength)
                    more[of] = pulls.add_(made) if of == name else pulls
        return loss_K, {**grads, **more}

    return with_pull


class MiniBatches:
    """The steps of a task's passes, one after the other; ``now`` is what the present one sees."""

    def __init__(self, one_pass: Pass | None) -> None:
        self.one_pass = one_pass
        self.now: tuple[Cohort, CohortRng] | None = None

    @property
    def steps(self) -> Callable[[], Iterator[Tensor]] | None:
        """Who takes each step of a pass ``[K]``; None where an epoch is one step."""
        return None if self.one_pass is None else self._steps

    def _steps(self) -> Iterator[Tensor]:
        assert self.one_pass is not None
        for step in self.one_pass():
            self.now = step.cohort, step.rng
            yield step.active
        self.now = None


def adapt(
    task: Task, model: Model, params_K: Params, cohort: Cohort, rate: float, steps: int
) -> Params:
    """``steps`` of plain gradient descent on the task's loss in evaluation, without dropout."""
    sgd = SGD(lr=rate)
    dual = dual_cohort(task, model, sgd, cohort, ("train",)) if steps else None
    if dual is None:
        return adapted(params_K, lambda p: task.loss(model, p, cohort), rate, steps)
    return _descended(task, model, DualDescent(dual, params_K, sgd), steps)


def _descended(task: Task, model: Model, descent: Descent, steps: int) -> Params:
    for _ in range(steps):
        descent.step(task.gradient(model, descent.params, descent.cohort))
    return descent.weights()
