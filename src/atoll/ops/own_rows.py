"""Stacked weights of which clients differ in some rows only, without copies of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.utils._pytree import tree_map_only

from atoll.cached import Cached
from atoll.device import of_numpy
from atoll.ops.sparse import Sparse


class Places(Cached):
    """Which rows of a stack ``[K, f, ...]`` are clients' own: ``columns_K`` for each of them.

    Own rows ``[R, ...]`` stand client by client, ``sizes[k]`` of each; ``rows [R]`` are their
    numbers within ``f``, ``batch [R]`` their clients' positions.
    """

    def __init__(self, columns_K: Sequence[np.ndarray], features: int) -> None:
        super().__init__()
        self.k, self.features = len(columns_K), features
        self.columns_K = tuple(columns_K)
        self.sizes = tuple(len(columns) for columns in columns_K)
        self.rows = of_numpy(np.concatenate(columns_K).astype(np.int64))

    @cached_property
    def batch(self) -> Tensor:
        return torch.repeat_interleave(torch.arange(self.k), torch.tensor(self.sizes))

    @cached_property
    def in_stack(self) -> Tensor:
        """Where own rows are in ``[K f, ...]``."""
        return self.batch * self.features + self.rows

    @cached_property
    def among_own(self) -> np.ndarray:
        """Where rows of ``[K f, ...]`` are among own ones; -1 for those that nobody owns."""
        places = np.full(self.k * self.features, -1, dtype=np.int32)
        places[self.in_stack.cpu().numpy()] = np.arange(len(self.rows), dtype=np.int32)
        return places

    @cached_property
    def lacking(self) -> Tensor:
        """For each row the first client that has it not as its own, or client 0 ``[f]``."""
        has = torch.zeros((self.k, self.features), dtype=torch.bool)
        has.view(-1)[self.in_stack] = True
        return has.to(torch.int8).argmin(0)

    def sums(self, weight_K: Tensor) -> tuple[Sparse, Tensor]:
        """What weighted sums are made by: own rows' weights as a matrix ``[f, R]``, and how much
        weight remains for the common row ``[f, 1]``."""
        return self.cached(
            ("sums", tuple(weight_K.tolist()), weight_K.dtype), lambda: self._sums(weight_K)
        )

    def _sums(self, weight_K: Tensor) -> tuple[Sparse, Tensor]:
        weights = weight_K.double()
        own = weights[self.batch]
        at = self.rows.cpu().numpy(), np.arange(len(own))
        matrix = sparse.csr_array((own.cpu().numpy(), at), shape=(self.features, len(own)))
        rest = weights.sum() - torch.zeros(self.features, dtype=own.dtype).index_add(
            0, self.rows, own
        )
        return Sparse(matrix, weight_K.dtype), rest.to(weight_K.dtype)[:, None]


class OwnRows(Tensor):
    """A stack ``[K, f, ...]`` whose rows are ``common [f, ...]`` but for each client's own.

    A first layer lives where a client has features: the rows of features that no node of a client
    has get no gradient, so they stay alike for all such clients, and are kept once.

    It can be used like any tensor: whatever needs more than its shape and type first writes it out
    in full, for good, so that a change in place is not lost. What is known to do with less is
    listed in ``_KNOWN``.
    """

    common: Tensor
    places: Places
    _own: Tensor
    _alike: bool
    _written: Tensor | None

    @staticmethod
    def __new__(cls, common: Tensor, own: Tensor, places: Places) -> OwnRows:
        # No value of its own: who gets at it other than through torch's functions finds no number.
        nothing = torch.full((), torch.nan, dtype=own.dtype)
        stack = nothing.expand(places.k, *common.shape).as_subclass(cls)
        stack.common, stack.own, stack.places, stack._written = common, own, places, None
        return stack

    @property
    def own(self) -> Tensor:
        """The clients' own rows ``[R, ...]``."""
        self.settle()
        return self._own

    @own.setter
    def own(self, rows: Tensor) -> None:
        self._own, self._alike = rows, False

    @property
    def alike(self) -> bool:
        """Whether own rows still are the common ones: then they are written when they are read."""
        return self._alike

    def settle(self) -> None:
        """Write own rows that are still alike."""
        if self._alike:
            torch.index_select(self.common, 0, self.places.rows, out=self._own)
            self._alike = False

    def room(self, filled: bool = False) -> Tensor:
        """The memory of own rows, whatever is in it; ``filled`` says that it now holds them."""
        self._alike = self._alike and not filled
        return self._own

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"<OwnRows {list(self.shape)}, {len(self.own)} of them own>"

    @property
    def compact(self) -> bool:
        """Whether it has not been written out."""
        return self._written is None

    @property
    def written(self) -> Tensor:
        """The whole stack, in place of which nothing else is kept from now on."""
        if self._written is None:
            self._written = self.in_full()
            self.common = self.own = self._written.new_empty(0)
        return self._written

    def in_full(self) -> Tensor:
        """A copy of the whole stack."""
        if self._written is not None:
            return self._written.clone()
        places = self.places
        stack = self.common.expand(places.k, *self.common.shape).clone()
        stack.flatten(0, 1).index_copy_(0, places.in_stack, self.own)
        return stack

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _ASKS_LITTLE:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        # Of options the one known function that has some is always told of all.
        known = _KNOWN.get(func) if not kwargs or func is torch.tensordot else None
        result = NotImplemented if known is None else known(*args, **kwargs)
        if result is not NotImplemented:
            return result
        args, kwargs = tree_map_only(OwnRows, lambda stack: stack.written, (tuple(args), kwargs))
        return func(*args, **kwargs)


def spread(common: Tensor, places: Places, memory: Tensor | None = None) -> OwnRows:
    """The same rows for everybody, ``[f, ...]``, own ones in some memory if that fits."""
    old = memory if isinstance(memory, OwnRows) and memory.compact else None
    if old is None or old.places is not places or old.dtype != common.dtype:
        room = common.new_empty((len(places.rows), *common.shape[1:]))
        stack = OwnRows(common.clone(), room, places)
    else:
        stack = OwnRows(old.common.copy_(common), old.room(), places)
    stack._alike = True
    return stack


def found_in(stack: Tensor, places: Places) -> OwnRows | None:
    """A stack ``[K, f, ...]`` with the rows that are not clients' own kept once, if they agree."""
    common = stack[places.lacking, torch.arange(places.features)]
    found = OwnRows(common, stack.flatten(0, 1).index_select(0, places.in_stack), places)
    return found if torch.equal(found.in_full(), stack) else None


def _clone(stack: Any) -> Any:
    if not stack.compact:
        return NotImplemented
    return OwnRows(stack.common.clone(), stack.own.clone(), stack.places)


def _zeros_like(stack: Any) -> Any:
    if not stack.compact:
        return NotImplemented
    zero = torch.zeros((), dtype=stack.own.dtype).expand_as(stack.common)
    return OwnRows(zero, torch.zeros_like(stack.own), stack.places)


def _copy(stack: Any, other: Any) -> Any:
    both = isinstance(stack, OwnRows) and isinstance(other, OwnRows)
    if not both or not (stack.compact and other.compact) or stack.places is not other.places:
        return NotImplemented
    if stack.common.stride() != other.common.stride():
        return NotImplemented
    if any(stack.common.stride()):
        stack.common.copy_(other.common)
    stack.own.copy_(other.own)
    return stack


def _everything(stack: Any, key: Any) -> Any:
    whole = isinstance(stack, OwnRows) and key == slice(0, len(stack))
    return stack if whole else NotImplemented


def _contiguous(stack: Any) -> Any:
    return stack.in_full() if stack.compact else NotImplemented


def _tensordot(weight_K: Any, stack: Any, dims: Any = 2, out: Any = None) -> Any:
    """A weighted sum over clients, where it is one."""
    single = isinstance(stack, OwnRows) and stack.compact and not isinstance(weight_K, OwnRows)
    if not single or out is not None or dims != 1 or weight_K.dim() != 1 or stack.own.dim() != 2:
        return NotImplemented
    matrix, rest = stack.places.sums(weight_K)
    return torch.addcmul(matrix @ stack.own, rest, stack.common)


_getters = ("shape", "dtype", "device", "ndim", "requires_grad", "itemsize", "is_sparse")
_ASKS_LITTLE: set[Any] = {
    *(getattr(Tensor, name).__get__ for name in _getters),
    *(Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point, Tensor.is_complex),
    *(Tensor.__len__, Tensor.element_size),
}
_KNOWN: dict[Any, Callable[..., Any]] = {
    Tensor.clone: _clone,
    Tensor.copy_: _copy,
    torch.zeros_like: _zeros_like,
    Tensor.__getitem__: _everything,
    Tensor.contiguous: _contiguous,
    torch.tensordot: _tensordot,
}
