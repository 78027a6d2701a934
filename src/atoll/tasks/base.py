"""What a task is: a loss to train on and scores to report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import kept_per_device
from atoll.graph import SPLITS, Graph
from atoll.leaves import Within
from atoll.models.base import Model, WrittenPullback
from atoll.ops.written_out import ProductGradient, gradients_are_last
from atoll.options import check_options
from atoll.registry import Registry
from atoll.rng import CohortRng
from atoll.tasks.metrics import EXTENDED, NO_SCORE
from atoll.tree import Kinds, Params


class Step(NamedTuple):
    """What a training step sees: a part of the data, its randomness, and who takes it ``[K]``."""

    cohort: Cohort
    rng: CohortRng
    active: Tensor


Pass = Callable[[], Iterator[Step]]
tasks: Registry[Task] = Registry("task", "atoll.tasks", lambda: Task, "atoll.tasks")


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A task. Its fields are its options."""

    registered_name: ClassVar[str]
    # The score that is reported, and by which the best round is chosen.
    metric: ClassVar[str]
    # Further scores, in the order of the last axis of the leaf ``extended [K, 3, m]``.
    extended: ClassVar[tuple[str, ...]] = ()
    # Whether the loss depends on the class scores of training nodes and on nothing else.
    depends_on_splits: ClassVar[bool] = False
    # The model that is used where nobody names one; empty: the method's.
    usual_model: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options("task", self)

    def prepare(self, graph: Graph, rng: np.random.Generator) -> Graph:
        """A client's graph as the task needs it; done by the client, with its own randomness."""
        return graph

    def refuse_model(self, model: Model) -> None:
        """One sentence if the task can't be done with a model."""
        return

    def passes(self, model: Model, cohort: Cohort, rng: CohortRng) -> Pass | None:
        """The steps of one pass over the training data; None: an epoch is one step and sees all."""
        return None

    @abstractmethod
    def missing(self, graph: Graph) -> str:
        """What a client lacks for training, in a few words; empty if nothing."""

    @abstractmethod
    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        """Each client's training loss ``[K]``."""

    def written_out(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> tuple[Tensor, WrittenPullback] | None:
        """What :meth:`loss` gives, with the same draws, and how what each client's loss counts
        ``[K]`` becomes the gradient, by compiled kernels; None where there are none for it."""
        return None

    def training_loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        """What :meth:`loss` gives, as a part of what may be differentiated but once
        (:func:`atoll.ops.written_out.differentiated_once`)."""
        if gradients_are_last():
            with torch.no_grad():
                found = self.written_out(model, params_K, cohort, rng)
            if found is not None:
                loss_K: Tensor = _Written.apply(*found, tuple(params_K), *params_K.values())  # type: ignore[no-untyped-call]
                return loss_K
        return self.loss(model, params_K, cohort, rng)

    def gradient(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Params:
        """The gradient of each client's training loss ``[K, ...]``.

        Clients share nothing, so the gradient of the sum is each client's own.
        """
        leaves = {name: p.detach().requires_grad_() for name, p in params_K.items()}
        total = self.loss(model, leaves, cohort, rng).sum()
        grads = torch.autograd.grad(total, list(leaves.values()))
        return dict(zip(leaves, grads, strict=True))

    @abstractmethod
    def scores(self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
        """The task's own ``metric``, ``loss`` and ``nodes`` (how many examples were scored) of
        each client's train, val and test examples, ``[K, 3]`` each, and the ``extended`` ones."""

    def blank_scores(self) -> Kinds:
        """The shape of one client's scores in a reply."""
        return {"metric": _blank_scores(self.metric, self.extended)}

    def remarks(self, sizes: Sequence[tuple[int, int]]) -> list[str]:
        """What options are for and did not happen, one sentence each, given how many nodes each
        client has and how many of them train."""
        return []

    def settled(self, graphs: Sequence[Graph]) -> Task:
        """The task as all clients have it, with what depends on all of them made out."""
        return self


@kept_per_device(maxsize=16)
def _blank_scores(metric: str, extended: tuple[str, ...]) -> dict[str, Any]:
    zeros = torch.zeros(len(SPLITS), dtype=torch.float64)
    blank: dict[str, Any] = dict.fromkeys((metric, "loss", "nodes"), zeros)
    if extended:
        blank["extended"] = zeros[:, None].repeat(1, len(extended))
    # One boast beyond any score would choose the best round for everybody.
    shares = ("accuracy", "auc", *(("extended",) if extended == EXTENDED else ()))
    for name in set(blank) & set(shares):
        blank[name] = Within(blank[name], NO_SCORE, 1.0 + 1e-9)
    return blank


class _Written(torch.autograd.Function):
    """A loss whose gradient is written out, as a part of what is differentiated."""

    @staticmethod
    def forward(
        ctx: Any, loss_K: Tensor, pull: WrittenPullback, names: Sequence[str], *_: Tensor
    ) -> Tensor:
        ctx.pull, ctx.names = pull, names
        return loss_K.clone()

    @staticmethod
    def backward(ctx: Any, grad_K: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("a gradient that is written out can't be differentiated again")
        grads = ctx.pull(grad_K)
        made = (grads[name] for name in ctx.names)
        return None, None, None, *(g.made() if isinstance(g, ProductGradient) else g for g in made)
