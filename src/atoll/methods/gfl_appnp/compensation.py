"""Gradient compensation: local descent of an MLP whose prediction includes others' outputs.

Client k minimises the cross-entropy of ``softmax(o_k h(x; W) + C_k)``, with ``h`` a two-layer MLP
without biases and ``C_k`` a constant whose Jacobian by W is known: GFL's compensated gradient,
eq. 15b. With ``v = y^ - y`` it is

    o_k J_h^T v + J_C^T v

and all of it that concerns the wide first layer has a simple form: ``X^T G`` for the client's own
points and ``J_C^T v`` for those of others. So while it descends, a client keeps the sums P of the
``lr G`` and u of the ``lr v`` instead of moving ``W1``. At the end, when it is needed,
``W1 = W1_start - X^T P - J_C^T u``; at every step only ``X W1`` is, which costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.graph import dense
from atoll.methods.gfl_appnp.batches import training_points
from atoll.models.base import Model
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.tree import Params


def check_plain(model: Model, optimizer: Optimizer) -> None:
    """Refuse what the descent here is not written for."""
    if getattr(model, "dropout", 0):
        raise AtollError(
            "gfl-appnp compensates gradients of one function, which dropout would change at every "
            "step; set model.dropout=0."
        )
    if optimizer != SGD(lr=optimizer.lr):
        raise AtollError(
            "gfl-appnp updates by plain gradient descent (Algorithm 1); set optimizer.name=sgd "
            "without momentum and weight decay."
        )


class Block(NamedTuple):
    """Training points of K clients, filled up to the same number: those that don't exist weigh 0.

    Shapes: ``x [K, n, f]``, ``gram [K, n, n]`` its products, ``target [K, n, c]`` one-hot, ``row
    [K, n]`` the points' row among all of the clients' points, and one past the last where there is
    none. Where points have few of the features, ``feature [K, R]`` are those of each client and
    ``own [K, n, R]`` its points' columns there, filled up with zeros.
    """

    x: Tensor
    gram: Tensor
    target: Tensor
    row: Tensor
    feature: Tensor | None = None
    own: Tensor | None = None

    def times(self, w: Tensor) -> Tensor:
        """``X W`` for one W ``[f, H]`` or K of them ``[K, f, H]``: ``[K, n, H]``."""
        if self.feature is None or self.own is None:
            return self.x @ w
        if w.dim() == 2:
            return self.own @ w[self.feature]
        return self.own @ w.gather(1, self.feature[:, :, None].expand(-1, -1, w.shape[2]))

    def take_from(self, w_K: Tensor, p: Tensor) -> Tensor:
        """``W - X^T P`` for K of both, in place."""
        if self.feature is None or self.own is None:
            return w_K.baddbmm_(self.x.mT, p, alpha=-1)
        return subtract_rows(w_K, self.feature, self.own.mT @ p)


def subtract_rows(w_K: Tensor, at_K: Tensor, rows_K: Tensor) -> Tensor:
    """Subtract ``[K, R, H]`` at rows ``[K, R]`` of ``[K, f, H]``, in place."""
    k, features, hidden = w_K.shape
    row = at_K + torch.arange(k)[:, None] * features
    w_K.view(-1, hidden).index_add_(0, row.flatten(), rows_K.flatten(0, 1), alpha=-1)
    return w_K


class Jacobian:
    """Products ``J^T u`` for u ``[K, c]``, with J the Jacobian of ``C_k`` by W1 or W2."""

    def first(self, u_K: Tensor) -> Tensor:
        """By W1: ``[K, f, H]``."""
        raise NotImplementedError("abstract")

    def subtract_first(self, w1: Tensor, u_K: Tensor) -> Tensor:
        """``W1 - J^T u`` for one W1 ``[f, H]``: ``[K, f, H]``."""
        return w1 - self.first(u_K)

    def take_from(self, w1_K: Tensor, u_K: Tensor) -> Tensor:
        """``W1 - J^T u`` for K of them ``[K, f, H]``, in place."""
        return w1_K.sub_(self.first(u_K))

    def second(self, u_K: Tensor) -> Tensor:
        """By W2: ``[K, H, c]``."""
        raise NotImplementedError("abstract")

    def at_points(self, points: Block) -> Jacobian:
        """The same with ``first`` multiplied by data points: ``[K, n, H]``."""
        raise NotImplementedError("abstract")


@dataclass(frozen=True)
class Structured(Jacobian):
    """Moments ``M [K, f, H]``, units ``a [K, H]`` and the W2 ``[H, c]`` it was taken at.

    ``M * (W2 u)^T`` by W1 and ``a u^T`` by W2: see the module ``encoder``.
    """

    moments_K: Tensor
    units_K: Tensor
    w2: Tensor

    def first(self, u_K: Tensor) -> Tensor:
        return self.moments_K * (u_K @ self.w2.T)[:, None, :]

    def subtract_first(self, w1: Tensor, u_K: Tensor) -> Tensor:
        # One pass over K models instead of two.
        return torch.addcmul(w1, self.moments_K, (u_K @ self.w2.T)[:, None, :], value=-1)

    def second(self, u_K: Tensor) -> Tensor:
        return self.units_K[:, :, None] * u_K[:, None, :]

    def at_points(self, points: Block) -> Structured:
        return replace(self, moments_K=points.times(self.moments_K))

    def in_full(self) -> Full:
        """Every entry."""
        first_K = self.moments_K[:, None] * self.w2.T[None, :, None, :]
        same_class = torch.eye(self.w2.shape[1], dtype=self.w2.dtype)
        return Full(first_K, self.units_K[:, None, :, None] * same_class[None, :, None, :])


@dataclass(frozen=True)
class Full(Jacobian):
    """Every entry: ``[K, c, f, H]`` by W1 and ``[K, c, H, c]`` by W2."""

    first_K: Tensor
    second_K: Tensor

    def first(self, u_K: Tensor) -> Tensor:
        return torch.einsum("kc,kcfh->kfh", u_K, self.first_K)

    def second(self, u_K: Tensor) -> Tensor:
        return torch.einsum("kc,kchd->khd", u_K, self.second_K)

    def at_points(self, points: Block) -> Full:
        return replace(self, first_K=points.x[:, None] @ self.first_K)


@dataclass(frozen=True)
class AtRows(Jacobian):
    """Entries by W1 at some rows only: ``[K, R, c, H]`` at features ``at_K [K, R]`` of f.

    A client with fewer rows than others has zeros in those that are not its own.
    """

    features: int
    at_K: Tensor
    rows_K: Tensor
    second_K: Tensor

    def first(self, u_K: Tensor) -> Tensor:
        k, _, _, hidden = self.rows_K.shape
        nothing = self.rows_K.new_zeros(k, self.features, hidden)
        return self.take_from(nothing, -u_K)

    def take_from(self, w1_K: Tensor, u_K: Tensor) -> Tensor:
        return subtract_rows(w1_K, self.at_K, torch.einsum("kc,krch->krh", u_K, self.rows_K))

    def second(self, u_K: Tensor) -> Tensor:
        return torch.einsum("kc,kchd->khd", u_K, self.second_K)

    def at_points(self, points: Block) -> Full:
        column = self.at_K[:, None, :].expand(-1, points.x.shape[1], -1)
        there = points.x.gather(2, column)
        return Full(torch.einsum("knr,krch->kcnh", there, self.rows_K), self.second_K)


@dataclass(frozen=True)
class Sum(Jacobian):
    """Two Jacobians together."""

    one: Jacobian
    other: Jacobian

    def first(self, u_K: Tensor) -> Tensor:
        return self.one.first(u_K) + self.other.first(u_K)

    def subtract_first(self, w1: Tensor, u_K: Tensor) -> Tensor:
        return self.other.take_from(self.one.subtract_first(w1, u_K), u_K)

    def second(self, u_K: Tensor) -> Tensor:
        return self.one.second(u_K) + self.other.second(u_K)

    def at_points(self, points: Block) -> Sum:
        return Sum(self.one.at_points(points), self.other.at_points(points))


def training_block(cohort: Cohort) -> Block:
    """The clients' training points, packed once."""

    def build() -> Block:
        points = training_points(cohort)
        k, n = points.k, max(points.sizes)
        x = np.zeros((k, n, cohort.features))
        row = torch.full((k, n), sum(points.sizes))
        target = torch.zeros(k, n, cohort.classes, dtype=cohort.dtype)
        ends = np.cumsum([0, *points.sizes])
        for at, graph in enumerate(points.graphs):
            x[at, : graph.nodes] = dense(graph.x)
            row[at, : graph.nodes] = torch.arange(ends[at], ends[at + 1])
            target[at, torch.arange(graph.nodes), of_numpy(graph.y)] = 1.0
        x_K = of_numpy(x).to(cohort.dtype)
        return Block(x_K, x_K @ x_K.mT, target, row, *_own_features(x_K))

    return cohort.cached("training block", build)


def _own_features(x_K: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Each client's features and its points' columns there, if that is much less than all."""
    has = (x_K != 0).any(1)
    most = int(has.sum(1).max())
    if most > x_K.shape[2] // 2:
        return None, None
    # Features a client has come first; what fills up are columns of zeros.
    feature = has.int().argsort(dim=1, descending=True, stable=True)[:, :most]
    return feature, x_K.gather(2, feature[:, None, :].expand(-1, x_K.shape[1], -1))


def descend(
    given: Params,
    block: Block,
    context: Params,
    jacobian: Jacobian | None,
    weights: Tensor,
    lr: float,
) -> tuple[Params, Tensor]:
    """One step per row of ``weights [steps, N]``, from the same parameters for all clients.

    ``context`` has o_k as ``own [K]`` and C_k as ``others [K, c]``; ``jacobian`` is that of C_k
    (None: zero). Returns the clients' parameters and their u ``[K, c]``.
    """
    own_K, others_K = context["own"], context["others"]
    w1, w2 = given["lin1.weight"], given["lin2.weight"]
    own = own_K[:, None, None]
    w2_K = w2.expand(len(own_K), *w2.shape)
    start = block.times(w1)
    p = torch.zeros_like(start)
    u_K = torch.zeros_like(others_K)
    # The first step moves from where C_k was taken: what others' points make of W1 comes after it.
    at_points = None if jacobian is None or len(weights) == 1 else jacobian.at_points(block)
    filled = torch.cat([weights, weights.new_zeros(len(weights), 1)], dim=1)
    for share in filled[:, block.row]:
        before = start - block.gram @ p
        if at_points is not None:
            before -= at_points.first(u_K)
        units = before.relu()
        z = own * (units @ w2_K) + others_K[:, None, :]
        v = share[:, :, None] * (z.softmax(-1) - block.target)
        v_K = v.sum(1)
        p += lr * own * (v @ w2_K.mT) * (before > 0)
        u_K = u_K + lr * v_K
        step = own * (units.mT @ v)
        w2_K = w2_K - lr * (step if jacobian is None else step + jacobian.second(v_K))
    if jacobian is None:
        w1_K = w1.expand(len(own_K), *w1.shape).clone()
    else:
        w1_K = jacobian.subtract_first(w1, u_K)
    block.take_from(w1_K, p)
    return {"lin1.weight": w1_K, "lin2.weight": w2_K}, u_K
