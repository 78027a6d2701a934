"""What neighbour generators make, and how a gradient with respect to it reaches their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from atoll.tree import Params


@dataclass(frozen=True)
class Generated:
    """Generated neighbours: the node of each ``[R]``, features ``[R, f]``, rows per client.

    They are differentiated once, together with all that was computed from some of them: gradients
    of these are not written down for all rows, but each added to the same one.
    """

    owner: Tensor
    rows: Tensor
    sizes: tuple[int, ...]
    of_some: list[tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, owner: Tensor, rows: Tensor, sizes: tuple[int, ...]) -> Generated:
        of_some: list[tuple[Tensor, Tensor]] = []
        rows = cast(Tensor, _All.apply(rows, of_some))  # type: ignore[no-untyped-call]
        return cls(owner, rows, sizes, of_some)

    def at(self, numbers: Tensor) -> Tensor:
        """Some of the rows."""
        return cast(Tensor, _Some.apply(self.rows, numbers, self.of_some))  # type: ignore[no-untyped-call]


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
        made = self.output.generated
        return Output(degree, Generated.of(made.owner, rows, made.sizes))


class _By(torch.autograd.Function):
    """An output that was computed before; gradients go back through that computation."""

    @staticmethod
    def forward(ctx: Any, made: Made, *_: Tensor) -> tuple[Tensor, Tensor]:
        ctx.made = made
        return made.output.degree.detach(), made.output.generated.rows.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        made = ctx.made
        outputs = made.output.degree, made.output.generated.rows
        return None, *torch.autograd.grad(outputs, list(made.weights.values()), grads)


class _All(torch.autograd.Function):
    """All rows; their gradient is complete when those of all that came from some of them are."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, of_some: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.of_some, ctx.shape = of_some, rows.shape
        ctx.set_materialize_grads(False)
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
        if not ctx.of_some:
            return grad, None
        # Others may have been handed the same gradient: it is not ours to add to.
        total = ctx.of_some[0][1].new_zeros(ctx.shape) if grad is None else grad.clone()
        for numbers, part in ctx.of_some:
            total.index_add_(0, numbers, part)
        ctx.of_some.clear()
        return total, None


class _Some(torch.autograd.Function):
    """Some rows, whose gradient waits for :class:`_All`'s."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, numbers: Tensor, of_some: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        ctx.numbers, ctx.of_some = numbers, of_some
        return rows.index_select(0, numbers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        ctx.of_some.append((ctx.numbers, grad))
        return None, None, None
