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
from atoll.ops.written_out import gradients_are_last

# Neighbours of so many numbers are not kept per routing for the backward pass but gathered again:
# kept, they take gigabytes.
_LARGE = 2**24


def routed(x: Tensor, edges: Tensor, routings: int) -> Tensor:
    """DisenConv, ``[N, factors, d] -> [N, factors, d]``.

    Each factor is scaled to length one. Beginning with ``u = x``, each routing shares every
    neighbour j of i out among the factors, ``p_ijk = softmax over k of <x_jk, u_ik>``, and
    ``u_ik <- (x_ik + sum_j p_ijk x_jk)``, scaled to length one.
    """
    x = _unit(x).contiguous()
    if fit(x) and (gradients_are_last() or not x.requires_grad):
        u, sides = x, _Sides(edges, len(x))
        for _ in range(routings):
            u = cast(Tensor, _Routing.apply(x, u, sides))  # type: ignore[no-untyped-call]
        return u
    j, i = edges[0].contiguous(), edges[1].contiguous()
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
class _Sides:
    """Edges ``[2, E]``, by the node they lead to and by the neighbour they come from."""

    edges: Tensor
    nodes: int

    @cached_property
    def by_node(self) -> tuple[np.ndarray, np.ndarray]:
        """Where each node's edges begin, and their neighbours."""
        order, pointers = self._sorted(1)
        return pointers, array(self.edges[0])[order]

    @cached_property
    def by_neighbour(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where each neighbour's edges begin, their nodes, and their places in the other order."""
        order, _ = self._sorted(1)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        order, pointers = self._sorted(0)
        return pointers, array(self.edges[1])[order], place[order]

    def _sorted(self, side: int) -> tuple[np.ndarray, np.ndarray]:
        at = array(self.edges[side])
        pointers = np.zeros(self.nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(at, minlength=self.nodes), out=pointers[1:])
        return np.argsort(at, kind="stable"), pointers


class _Routing(torch.autograd.Function):
    """One routing by a kernel, which scales its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, u: Tensor, sides: _Sides) -> Tensor:
        made, lengths = torch.empty_like(x), x.new_empty(x.shape[:2])
        parts = array(x), array(u), *sides.by_node, array(made), array(lengths)
        share(partial(kernels("routing").routed, *parts), len(x), _work(x, sides, 4))
        ctx.save_for_backward(x, u, made, lengths)
        ctx.sides = sides
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (x, u, made, lengths), sides = ctx.saved_tensors, ctx.sides
        shares, slopes = x.new_empty(2, sides.edges.shape[1], x.shape[1])
        to_x, to_u, grad = torch.empty_like(x), torch.empty_like(x), grad.clone().contiguous()
        before, of_edges = (
            (array(t) for t in (x, u, made, lengths, grad)),
            tuple(map(array, (shares, slopes))),
        )
        parts = *before, *sides.by_node, *of_edges, array(to_u)
        share(partial(kernels("routing").to_nodes, *parts), len(x), _work(x, sides, 6))
        parts = array(u), array(grad), *sides.by_neighbour, *of_edges, array(to_x)
        share(partial(kernels("routing").to_neighbours, *parts), len(x), _work(x, sides, 4))
        return to_x, to_u, None


def _work(x: Tensor, sides: _Sides, per_number: int) -> float:
    return float(per_number * sides.edges.shape[1] * x[0].numel())
