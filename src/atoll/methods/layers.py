"""Layers of a model that stay with each client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from atoll.errors import unknown
from atoll.methods.global_model import GlobalModel
from atoll.tree import Params


@dataclass(frozen=True, kw_only=True)
class PartlyShared(GlobalModel):
    """A global model of some layers only; the others are each client's own.

    ``own_layers`` names these, as beginnings of their parameters' names. They never leave: they are
    in no reply, and the server does not have them. All clients start from the same ones, made from
    the public seed. Where clients have features and classes of their own, the layers that depend on
    these must be among them.
    """

    samples_nodes = True
    own_layers: tuple[str, ...] = ()

    def public(self, params: Params) -> Params:
        return without_layers(params, self.own_layers)


def without_layers(
    params: Mapping[str, Tensor], layers: Sequence[str], option: str = "method.own_layers"
) -> Params:
    """The parameters outside some layers; a layer that there is not is an error."""
    for layer in layers:
        if not any(in_layer(name, layer) for name in params):
            raise unknown(f"layer ({option})", layer, {n.rpartition(".")[0] for n in params})
    return {n: p for n, p in params.items() if not any(in_layer(n, layer) for layer in layers)}


def last_layer(names: Iterable[str]) -> str:
    """``classifier`` if ``classifier.bias`` comes last; a model without layers is one layer."""
    return list(names)[-1].rpartition(".")[0]


def in_layer(name: str, layer: str) -> bool:
    return layer == "" or name == layer or name.startswith(layer + ".")
