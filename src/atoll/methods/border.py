"""The border of a step: flat trees outside, kinds within, and a word for each common mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any

from torch import Tensor

from atoll.cohort import Cohort
from atoll.federation.calls import Call, Reply
from atoll.federation.validation import Batch
from atoll.leaves import Compound
from atoll.methods.client import Client, Trains
from atoll.rng import CohortRng
from atoll.tree import Kinds, Tree, flat, nested


def perform(
    method: Trains, call: Call, row: Tree, cohort: Cohort, state: Tree, rng: CohortRng
) -> tuple[Tree, Batch]:
    """A step for K clients, each with a row of its own: their next state and their replies."""
    step = _step(method, call.step)
    where = f"step '{call.step}' of {type(method).__name__}"
    alike = {n: _for_everybody(n, leaf, cohort.k) for n, leaf in call.shared.items()}
    sent: Kinds = {kind: {} for kind in call.kinds} | nested(alike | row)
    _check_named(where, _parameters(step.__func__), sent)
    lent = {name: _values(leaf) for name, leaf in flat(sent).items()}
    versions = {name: values._version for name, values in lent.items()}
    client = Client(method, cohort, rng, nested(state), lent)
    reply = step(client, **sent)
    written = [name for name, values in lent.items() if values._version != versions[name]]
    if written:
        raise TypeError(f"{where} writes into {written}, which others use as well; copy it first")
    if not isinstance(reply, Reply):
        raise TypeError(f"{where} returns a {type(reply).__name__}; it must return a Reply")
    body = flat(reply.kinds)
    for name, leaf in body.items():
        if _rows(leaf) != cohort.k:
            raise _not_per_client(f"'{name}'", where, leaf, cohort.k)
    if reply.weight is not None and _rows(reply.weight) != cohort.k:
        raise _not_per_client("the weight", where, reply.weight, cohort.k)
    return flat(client.state), Batch(cohort.clients, body, reply.weight)


def _step(method: Trains, name: str) -> Any:
    """The client step of a method that has a name."""
    found = getattr(method, name, None) if isinstance(name, str) else None
    if getattr(found, "is_client_step", False):
        return found
    what = type(method).__name__
    if not isinstance(name, str):
        raise TypeError(f"a step of {what} is asked for by its name, as in fed.ask('train', ...)")
    if found is not None:
        raise ValueError(f"{what} has no client step '{name}': put @client_step before {name}")
    known = [n for n in dir(type(method)) if getattr(getattr(method, n), "is_client_step", False)]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"it has {known}"
    raise ValueError(f"{what} has no client step '{name}': {hint}")


def _for_everybody(name: str, leaf: Any, k: int) -> Tensor:
    """A leaf that all clients get, with an axis of clients; no copy is made."""
    if not isinstance(leaf, Tensor):
        raise TypeError(f"'{name}' can't be sent to all alike; it is not a plain tensor")
    return leaf.expand(k, *leaf.shape)


def _check_named(where: str, named: Mapping[str, bool], sent: Mapping[str, Any]) -> None:
    """A step names every kind it is sent, and is sent every kind it must have."""
    surplus = sorted(set(sent) - set(named))
    if surplus:
        raise TypeError(
            f"{where} is sent the kinds {surplus} but takes {list(named)}; name them as parameters"
        )
    missing = sorted(name for name, needed in named.items() if needed and name not in sent)
    if missing:
        raise TypeError(f"{where} takes {missing}, which it is not sent")


@lru_cache(maxsize=1024)
def _parameters(step: Callable[..., Reply]) -> dict[str, bool]:
    """The kinds that a step names, and whether it must have them."""
    kinds = list(signature(step).parameters.values())[2:]  # after self and client
    return {p.name: p.default is Parameter.empty for p in kinds}


def _values(leaf: Any) -> Tensor:
    """A tensor that shares memory, and the count of writes to it, with a leaf's values."""
    if not isinstance(leaf, Compound):
        assert isinstance(leaf, Tensor)
        return leaf
    return leaf.numbers()[0]


def _rows(leaf: Any) -> int:
    """How many clients a leaf of a reply has parts of; -1 if it is no leaf."""
    if isinstance(leaf, Tensor):
        return leaf.shape[0] if leaf.dim() else 0
    return leaf.clients if isinstance(leaf, Compound) else -1


def _not_per_client(what: str, where: str, leaf: Any, k: int) -> TypeError:
    rows = _rows(leaf)
    if rows < 0:
        found = f"is a {type(leaf).__name__}; it must be a tensor [K, ...]"
    else:
        found = f"has {rows} rows for {k} clients; its first axis is that of clients"
    return TypeError(f"{what} in the reply of {where} {found}")
