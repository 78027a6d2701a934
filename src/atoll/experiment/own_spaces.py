"""Parties whose features and classes mean different things: what they can't share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.methods.base import Method


def refuse_shared_spaces(method: Method, graphs: Sequence[Graph]) -> None:
    """One sentence if a layer is shared that depends on features or classes, and these differ.

    Such a layer is one whose shape changes with their number.
    """
    spaces = {g.space for g in graphs} | {h.space for g in graphs for h in g.holdings}
    if len(spaces) < 2:
        return
    if method.pooled:
        raise AtollError(
            f"{method.registered_name} trains one model on everybody's data, but here features and "
            f"classes mean something else to each client; choose another method."
        )
    f, c = graphs[0].features, graphs[0].classes
    usual, larger = (
        method.model.init(f + more, c + more, np.random.default_rng(0)) for more in (0, 1)
    )
    depend = [name for name, p in usual.items() if p.shape != larger[name].shape]
    shared = [name for name in method.public(usual) if name in depend]
    if not shared:
        return
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in depend))
    listed = ", ".join(f'"{layer}"' for layer in layers)
    remedy = (
        f"set method.own_layers=[{listed}]"
        if hasattr(method, "own_layers")
        else "choose a method with own_layers (fed-avg, fed-prox, fed-per, gcfl), fed-star or local"
    )
    raise AtollError(
        f"features and classes mean something else to each client, so '{shared[0]}' can't be "
        f"shared; {remedy}."
    )
