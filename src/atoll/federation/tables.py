"""Tables of a server with one row per client, of which only some answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from atoll.leaves import Ragged
from atoll.tree import Kinds


def updated(server: Kinds, rows: Tensor, **tables: Mapping[str, Tensor | Ragged]) -> Kinds:
    """A server's state with some clients' rows of its tables ``[K, ...]`` replaced.

    Each new leaf ``[m, ...]`` has the rows ``rows [m]``. A table ``[K, K]`` is one of pairs of
    clients: ``[m, m]`` replaces what is between those. A ragged one has one block per row. Who has
    no new row keeps the old one, and leaves that are not named stay as they are.
    """
    state = dict(server)
    in_order = torch.equal(rows, torch.arange(len(rows)))
    for name, table in tables.items():
        old = server.get(name, {})
        unknown = sorted(set(table) - set(old))
        if unknown:
            raise ValueError(f"the server has no {unknown} of kind '{name}'; make them in start")
        new = {
            n: _replaced(f"{name}/{n}", old[n], rows, in_order, leaf) for n, leaf in table.items()
        }
        state[name] = {**old, **new}
    return state


def _replaced(name: str, old: Any, rows: Tensor, in_order: bool, new: Any) -> Any:
    if isinstance(old, Ragged):
        return old.replaced(rows.tolist(), new)
    k, m = len(old), len(rows)
    pairs = old.shape == (k, k)
    wanted = (m, m) if pairs else (m, *old.shape[1:])
    if new.shape != wanted or new.dtype != old.dtype:
        raise ValueError(
            f"rows {list(new.shape)} of {new.dtype} can't update '{name}', which takes "
            f"{list(wanted)} of {old.dtype}"
        )
    if m == k and in_order:
        return new
    if not pairs:
        return old.index_copy(0, rows, new)
    table = old.clone()
    table[rows[:, None], rows] = new
    return table
