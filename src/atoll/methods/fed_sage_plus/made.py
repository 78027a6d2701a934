"""What neighbour generators make, and how a gradient with respect to it reaches their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from atoll.tree import Params


class Generated(NamedTuple):
    """Generated neighbours: the node of each ``[R]``, features ``[R, f]``, rows per client."""

    owner: Tensor
    rows: Tensor
    sizes: tuple[int, ...]

    def at(self, numbers: Tensor) -> Tensor:
        """Some of the rows, in their order."""
        return cast(Tensor, _At.apply(self.rows, numbers))  # type: ignore[no-untyped-call]


class Output(NamedTuple):
    """Predicted numbers of missing neighbours ``[N]``, and the neighbours."""

    degree: Tensor
    generated: Generated


@dataclass(frozen=True)
class Made:
    """An output together with the weights it was computed from, to be differentiated once."""

    output: Output
    weights: Params

    def by(self, p: Mapping[str, Tensor]) -> Output:
        """The output as one of ``p``, which are the same numbers as the weights."""
        own = [p[name] for name in self.weights]
        degree, rows = cast(tuple[Tensor, Tensor], _By.apply(self, *own))  # type: ignore[no-untyped-call]
        return Output(degree, self.output.generated._replace(rows=rows))


class _By(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, made: Made, *_: Tensor) -> tuple[Tensor, Tensor]:
        ctx.made = made
        return made.output.degree.detach(), made.output.generated.rows.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        made = ctx.made
        outputs = made.output.degree, made.output.generated.rows
        return None, *torch.autograd.grad(outputs, list(made.weights.values()), grads)


class _At(torch.autograd.Function):
    """Rows by their numbers, whose gradient is not written down for all the others."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(numbers)
        ctx.shape = rows.shape
        return rows.index_select(0, numbers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (numbers,) = ctx.saved_tensors
        return torch.sparse_coo_tensor(
            numbers[None], grad, ctx.shape, is_coalesced=True, check_invariants=False
        ), None
