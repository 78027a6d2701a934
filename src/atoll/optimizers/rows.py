"""Training the rows of a first layer that are clients' own, and the common ones once for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.packed import Packed
from atoll.models.base import Model
from atoll.ops.own_rows import OwnRows, Places, found_in, spread
from atoll.optimizers.base import Optimizer
from atoll.tree import Params

# Under which a cohort remembers that rows of its clients differ where none is their own.
_DIFFER = "rows that are nobody's own differ"


@dataclass
class CommonRows:
    """Rows of stacks that no client has as its own, by what an optimizer is told of them.

    They have no gradient, so where weight decay does not move them nothing does.
    """

    names: frozenset[str] = frozenset()
    rows: Params = field(default_factory=dict)
    no_gradients: Params = field(default_factory=dict)


def own_places(model: Model, optimizer: Optimizer, cohort: Cohort) -> Places | None:
    """Which rows of the first layer each client trains, where descent can be on these alone.

    Only if all clients take part in every step: who sat one out has other common rows.
    """
    if not optimizer.entry_by_entry or not model.on_features or cohort.partial:
        return None
    if not isinstance(cohort.inputs, Packed) or _DIFFER in cohort.derived:
        return None
    return cohort.inputs.places


def by_rows(own: Tensor, sent: Tensor | None, places: Places) -> Tensor:
    """A stack that was sent, or else clients' own, with its common rows kept once if they agree.

    What was sent is not changed; the result is in the memory of ``own`` where it can be.
    """
    if sent is not None and sent is not own:
        if sent.stride(0) == 0:
            return spread(sent[0], places, own)
        return own.detach().copy_(sent)
    found = _kept_once(own, places)
    return own if found is None else found


def agreeing(params_K: Params, state_K: Params, cohort: Cohort) -> tuple[Params, Params]:
    """Parameters and their optimizer's state, both by own rows or both in full."""
    split = {name: p for name, p in params_K.items() if isinstance(p, OwnRows) and p.compact}
    states = dict(state_K)
    for name, p in split.items():
        for key in [key for key in state_K if key.endswith(f".{name}")]:
            found = _kept_once(state_K[key], p.places)
            if found is None:
                cohort.derived[_DIFFER] = True
                return in_full(params_K), in_full(state_K)
            states[key] = found
    return params_K, states


def apart(name: str, stack: Tensor, other: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """The rows that move of a stack, clients' own and common ones, by what an optimizer calls
    them; and the same rows of one that was sent to all alike. Any other stack as it is."""
    if not isinstance(stack, OwnRows) or not stack.compact:
        return {name: (stack, other)}
    common = other[0]
    return {
        name: (stack.own, common.index_select(0, stack.places.rows)),
        _common_of(name): (stack.common, common),
    }


def _common_of(name: str) -> str:
    return f"common rows of {name}"


def in_full(leaves: Mapping[str, Tensor]) -> Params:
    """With all stacks written out."""
    return {n: leaf.written if isinstance(leaf, OwnRows) else leaf for n, leaf in leaves.items()}


def _kept_once(stack: Tensor, places: Places) -> OwnRows | None:
    if isinstance(stack, OwnRows):
        if stack.compact and stack.places is places:
            return stack
        stack = stack.written
    return found_in(stack, places)


def stepped(
    params_K: Params, state_K: Params, optimizer: Optimizer
) -> tuple[Params, Params, CommonRows, Params]:
    """Parameters, the memory in which they move, what moves without a gradient, and the state of
    both."""
    split = {name: p for name, p in params_K.items() if isinstance(p, OwnRows) and p.compact}
    if split and not optimizer.in_step(state_K):
        params_K, split = in_full(params_K), {}
    leaves = {n: (split[n].room() if n in split else p).detach() for n, p in params_K.items()}
    if not split:
        return params_K, leaves, CommonRows(), in_full(state_K)
    common = CommonRows(frozenset(split))
    states = {n: leaf.own if isinstance(leaf, OwnRows) else leaf for n, leaf in state_K.items()}
    for name, p in split.items() if optimizer.weight_decay else ():
        both = _common_of(name)
        common.rows[both], common.no_gradients[both] = p.common, torch.zeros_like(p.common)
        for key in [key for key in state_K if key.endswith(f".{name}")]:
            stack = state_K[key]
            assert isinstance(stack, OwnRows)
            stack.common = stack.common.contiguous()
            states[key.removesuffix(name) + both] = stack.common
    return params_K, leaves, common, states
