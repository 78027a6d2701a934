"""Disentangled convolution: every neighbour is shared out among the factors of a node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from atoll.kernels import array, fit, kernels
from atoll.kernels.sharing import share
from atoll.ops.ragged import segment_sum
from atoll.ops.ragged_product import starts
from atoll.ops.written_out import gradients_are_last

# Neighbours of so many numbers are not kept per routing for the backward pass but gathered again:
# kept, they take gigabytes.
_LARGE = 2**24


def routed(x: Tensor, sides: Sides, routings: int) -> Tensor:
    """DisenConv, ``[N, factors, d] -> [N, factors, d]``.

    Each factor is scaled to length one. Beginning with ``u = x``, each routing shares every
    neighbour j of i out among the factors, ``p_ijk = softmax over k of <x_jk, u_ik>``, and
    ``u_ik <- (x_ik + sum_j p_ijk x_jk)``, scaled to length one.
    """
    x = _unit(x).contiguous()
    if fit(x) and (gradients_are_last() or not x.requires_grad):
        return cast(Tensor, _Routed.apply(x, sides, routings))  # type: ignore[no-untyped-call]
    j, i = sides.edges[0].contiguous(), sides.edges[1].contiguous()
    z, u = x.index_select(0, j), x
    for _ in range(routings):
        if z.numel() > _LARGE and z.requires_grad:
            u = checkpoint(_routing, x, z, u, i, use_reentrant=False, preserve_rng_state=False)
        else:
            u = _routing(x, z, u, i)
    return u


def _routing(x: Tensor, z: Tensor, u: Tensor, i: Tensor) -> Tensor:
    """One routing of neighbours ``z [E, factors, d]`` of nodes ``i [E]``."""
    p = torch.softmax((z * u.index_select(0, i)).sum(2), dim=1)
    return _unit(x + segment_sum(z * p[:, :, None], i, len(x)))


def _unit(x: Tensor) -> Tensor:
    """Factors at length one. One that is zero, as dropout leaves it now and then, stays so, and its
    gradient stays finite, which a division by a tiny number instead would not grant."""
    length = torch.linalg.vector_norm(x, dim=2, keepdim=True)
    return x / torch.where(length > 0, length, torch.ones_like(length))


@dataclass(frozen=True, eq=False)
class Sides:
    """Edges ``[2, E]`` among the nodes of clients of these sizes, also by the node they lead to."""

    edges: Tensor
    sizes: tuple[int, ...]

    @cached_property
    def by_node(self) -> tuple[np.ndarray, np.ndarray]:
        """Where each node's edges begin, and their neighbours."""
        at, nodes = array(self.edges[1]), sum(self.sizes)
        pointers = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(at, minlength=nodes), out=pointers[1:])
        return pointers, array(self.edges[0])[np.argsort(at, kind="stable")]

    def work(self, x: Tensor, routings: int, per_number: int) -> float:
        return float(per_number * routings * self.edges.shape[1] * x[0].numel())


class _Routed(torch.autograd.Function):
    """All routings by kernels; what each made is kept where a gradient is wanted."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sides: Sides, routings: int) -> Tensor:
        room = routings if ctx.needs_input_grad[0] else min(routings, 2)
        made_T, lengths_T = x.new_empty((room, *x.shape)), x.new_empty((room, *x.shape[:2]))
        parts = array(x), *sides.by_node, routings, array(made_T), array(lengths_T)
        share(partial(kernels("routing").routed, *parts), len(x), sides.work(x, routings, 4))
        ctx.save_for_backward(x, made_T, lengths_T)
        ctx.sides = sides
        return made_T[(routings - 1) % room].clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x, made_T, lengths_T), sides = ctx.saved_tensors, ctx.sides
        to_x = torch.zeros_like(x)
        given = (array(t) for t in (x, made_T, lengths_T, grad.contiguous()))
        parts = *given, *sides.by_node, starts(sides.sizes), array(to_x)
        work = sides.work(x, len(made_T), 10)
        share(partial(kernels("routing").gradient, *parts), len(sides.sizes), work)
        return to_x, None, None
