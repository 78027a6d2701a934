"""Each model as the source of a plain torch_geometric module, and its weights under its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from atoll.errors import AtollError
from atoll.models.appnp import APPNP
from atoll.models.base import Model
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.tree import Params

# Layers of torch_geometric that take the weights of edges.
_WEIGHTED = ", edge_weight=None"


@dataclass(frozen=True)
class Source:
    """What a module is made of.

    ``layers`` is the body of its constructor, ``forward`` that of its forward pass, ``weights`` the
    tensors of its state by name. ``imports`` are the layers it takes from torch_geometric.
    """

    layers: str
    forward: str
    weights: Params
    imports: str = ""
    weighted: bool = False

    @property
    def arguments(self) -> str:
        return "x, edge_index" + (_WEIGHTED if self.weighted else "")


def source_of(model: Model, params: Mapping[str, Tensor]) -> Source:
    """The module that equals a model with one client's parameters."""
    found = _SOURCES.get(type(model))
    if found is None:
        raise AtollError(
            f"the model '{model.registered_name}' can't be exported: it is your own torch module "
            f"already; load its weights from best.safetensors."
        )
    return found(model, params)


def _gcn(model: GCN, p: Mapping[str, Tensor]) -> Source:
    linear = model.head == "linear"
    layers = [_layer("conv1", "GCNConv", *p["conv1.weight"].shape, bias=model.bias)]
    layers += [_layer("conv2", "GCNConv", *p["conv2.weight"].shape, bias=model.bias)]
    weights = _renamed(p, {f"{c}.weight": f"{c}.lin.weight" for c in ("conv1", "conv2")})
    steps = [
        "h = self.conv1(x, edge_index, edge_weight).relu()",
        _dropped(model.dropout),
        "h = self.conv2(h, edge_index, edge_weight)",
    ]
    if linear:
        layers += [
            _layer("classifier", "nn.Linear", *p["classifier.weight"].shape, bias=model.bias)
        ]
        steps += ["h = h.relu()", _dropped(model.dropout), "h = self.classifier(h)"]
    return _source(layers, steps, weights, "GCNConv", weighted=True)


def _sgc(model: SGC, p: Mapping[str, Tensor]) -> Source:
    layers = [_layer("conv", "SGConv", *p["weight"].shape, K=model.hops)]
    weights = _renamed(p, {"weight": "conv.lin.weight", "bias": "conv.lin.bias"})
    steps = ["h = self.conv(x, edge_index, edge_weight)"]
    return _source(layers, steps, weights, "SGConv", weighted=True)


def _sage(model: SAGE, p: Mapping[str, Tensor]) -> Source:
    layers, names = [], {}
    for name in ("sage1", "sage2"):
        layers.append(_layer(name, "SAGEConv", *p[f"{name}.self"].shape, bias=model.bias))
        names[f"{name}.neighbour"] = f"{name}.lin_l.weight"
        names[f"{name}.self"] = f"{name}.lin_r.weight"
        names[f"{name}.bias"] = f"{name}.lin_l.bias"
    steps = [
        "h = self.sage1(x, edge_index).relu()",
        _dropped(model.dropout),
        "h = self.sage2(h, edge_index)",
    ]
    return _source(layers, steps, _renamed(p, names), "SAGEConv")


def _gat(model: GAT, p: Mapping[str, Tensor]) -> Source:
    layers: list[str] = []
    weights: Params = {}
    for name in ("gat1", "gat2"):
        heads, width = p[f"{name}.source"].shape
        inputs = p[f"{name}.weight"].shape[0]
        layers.append(_layer(name, "GATConv", inputs, width, heads=heads, bias=model.bias))
        weights |= {
            f"{name}.lin.weight": p[f"{name}.weight"].T,
            f"{name}.att_src": p[f"{name}.source"][None],
            f"{name}.att_dst": p[f"{name}.target"][None],
        }
        weights |= {f"{name}.bias": p[f"{name}.bias"]} if model.bias else {}
    steps = [
        "h = nn.functional.elu(self.gat1(x, edge_index))",
        _dropped(model.dropout),
        "h = self.gat2(h, edge_index)",
    ]
    return _source(layers, steps, weights, "GATConv")


def _mlp(model: MLP, p: Mapping[str, Tensor]) -> Source:
    return _source(_two_layers(model, p), _two_steps(model), _renamed(p, {}))


def _appnp(model: APPNP, p: Mapping[str, Tensor]) -> Source:
    layers = [
        *_two_layers(model, p),
        f"self.spread = APPNP(K={model.hops}, alpha={model.alpha!r})",
    ]
    steps = [*_two_steps(model), "h = self.spread(h, edge_index, edge_weight)"]
    return _source(layers, steps, _renamed(p, {}), "APPNP", weighted=True)


def _two_layers(model: MLP | APPNP, p: Mapping[str, Tensor]) -> list[str]:
    return [
        _layer(name, "nn.Linear", *p[f"{name}.weight"].shape, bias=model.bias)
        for name in ("lin1", "lin2")
    ]


def _two_steps(model: MLP | APPNP) -> list[str]:
    return ["h = self.lin1(x).relu()", _dropped(model.dropout), "h = self.lin2(h)"]


_SOURCES: dict[type[Model], Callable[[Any, Mapping[str, Tensor]], Source]] = {
    GCN: _gcn,
    SGC: _sgc,
    SAGE: _sage,
    GAT: _gat,
    MLP: _mlp,
    APPNP: _appnp,
}


def _source(
    layers: list[str], steps: list[str], weights: Params, imports: str = "", weighted: bool = False
) -> Source:
    lines = [step for step in steps if step]
    return Source(_indented(layers), _indented([*lines, "return h"]), weights, imports, weighted)


def _layer(name: str, kind: str, *sizes: int, **options: Any) -> str:
    given = [str(size) for size in sizes] + [f"{o}={value!r}" for o, value in options.items()]
    return f"self.{name} = {kind}({', '.join(given)})"


def _dropped(rate: float) -> str:
    return f"h = nn.functional.dropout(h, {rate!r}, self.training)" if rate else ""


def _indented(lines: list[str]) -> str:
    return "\n".join(f"        {line}" for line in lines)


def _renamed(p: Mapping[str, Tensor], names: Mapping[str, str]) -> Params:
    """Parameters under a module's names; matrices are transposed, as torch keeps them."""
    return {names.get(name, name): t.T if t.dim() == 2 else t for name, t in p.items()}
