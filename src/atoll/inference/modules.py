"""Each model as the source of a plain torch_geometric module, and its weights under its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from atoll.errors import AtollError
from atoll.models.appnp import APPNP
from atoll.models.aux_gcn import AuxGCN
from atoll.models.base import Model
from atoll.models.disen import Disen
from atoll.models.gamlp import GAMLP
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.gin import GIN
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.models.star_gin import StarGIN
from atoll.tree import Params

# Layers that take the weights of edges.
_WEIGHTED = ", edge_weight=None"
# torch_geometric's SAGEConv takes no weights of edges.
_WEIGHTED_SAGE = '''

class WeightedSAGEConv(nn.Module):
    """SAGEConv with a weighted mean over neighbours; a node without any has zero there."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.lin_l = nn.Linear(inputs, outputs, bias=bias)
        self.lin_r = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, edge_index, edge_weight=None):
        source, target = edge_index[0], edge_index[1]
        if edge_weight is None:
            edge_weight = torch.ones_like(x[source, 0])
        total = torch.zeros_like(x[:, 0]).scatter_add(0, target, edge_weight)
        place = target.view(-1, 1).expand(-1, x.size(1))
        around = torch.zeros_like(x).scatter_add(0, place, x[source] * edge_weight.view(-1, 1))
        mean = around / torch.where(total > 0, total, torch.ones_like(total)).view(-1, 1)
        return self.lin_l(mean) + self.lin_r(x)
'''


@dataclass(frozen=True)
class Source:
    """What a module is made of.

    ``layers`` is the body of its constructor, ``forward`` that of its forward pass, ``weights`` the
    tensors of its state by name. ``imports`` are the layers it takes from torch_geometric,
    ``own_layer`` one that is defined for it.
    """

    layers: str
    forward: str
    weights: Params
    imports: str = ""
    weighted: bool = False
    own_layer: str = ""

    @property
    def arguments(self) -> str:
        return "x, edge_index" + (_WEIGHTED if self.weighted else "")


def source_of(model: Model, params: Mapping[str, Tensor], weighted: bool = False) -> Source:
    """The module that equals a model with one client's parameters, on edges with weights or not."""
    if isinstance(model, StarGIN) or (weighted and isinstance(model, GIN)):
        what = "edges with weights" if weighted else "the structure of its graph"
        raise AtollError(
            f"the model '{model.registered_name}' can't be exported, since no layer of "
            f"torch_geometric looks at {what} as it does; use: atoll predict"
        )
    found = _SOURCES.get(type(model))
    if found is None:
        raise AtollError(
            f"the model '{model.registered_name}' can't be exported: it is your own torch module "
            f"already; load its weights from best.safetensors."
        )
    source = found(model, params)
    if weighted and isinstance(model, SAGE):
        return _with_weights(source)
    return source


def _with_weights(sage: Source) -> Source:
    """The same layers under the same names, which take the weights of edges."""
    return replace(
        sage,
        layers=sage.layers.replace("SAGEConv(", "WeightedSAGEConv("),
        forward=sage.forward.replace("edge_index)", "edge_index, edge_weight)"),
        imports="",
        weighted=True,
        own_layer=_WEIGHTED_SAGE,
    )


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


def _gamlp(model: GAMLP, p: Mapping[str, Tensor]) -> Source:
    features, hops = p["attention.reference"].shape
    layers = [
        _layer("own", "nn.Linear", features, 1),
        _layer("reference", "nn.Linear", features, hops, bias=False),
        "self.spread = APPNP(K=1, alpha=0.0)",
        "self.activation = nn.PReLU()",
    ]
    steps = [
        "hops = [x]",
        f"for _ in range({model.hops}):",
        "    hops.append(self.spread(hops[-1], edge_index, edge_weight))",
        "common = sum(h @ self.reference.weight[k] for k, h in enumerate(hops))",
        "own = [self.own(h).squeeze(1) + common for h in hops]",
        "w = torch.stack(own, dim=1).sigmoid().softmax(dim=1)",
        "h = sum(w[:, k, None] * hop for k, hop in enumerate(hops))",
    ]
    for i in range(1, model.layers + 1):
        layers.append(_layer(f"lin{i}", "nn.Linear", *p[f"lin{i}.weight"].shape))
        if i < model.layers:
            steps += [f"h = self.activation(self.lin{i}(h))", _dropped(model.dropout)]
    steps.append(f"h = self.lin{model.layers}(h)")
    names = {"own": "own.weight", "reference": "reference.weight", "bias": "own.bias"}
    names = {f"attention.{name}": there for name, there in names.items()}
    weights = _renamed(p, names | {"slope": "activation.weight"})
    return _source(layers, steps, weights, "APPNP", weighted=True)


def _aux_gcn(model: AuxGCN, p: Mapping[str, Tensor]) -> Source:
    layers = [_layer(c, "GCNConv", *p[f"{c}.weight"].shape) for c in ("conv1", "conv2")]
    layers += [
        f"self.aux = nn.Parameter(torch.zeros({len(p['aux'])}))",
        _layer("classifier", "nn.Linear", *p["classifier.weight"].shape),
    ]
    steps = [
        "h = self.conv1(x, edge_index, edge_weight).relu()",
        _dropped(model.dropout),
        "h = self.conv2(h, edge_index, edge_weight).relu()",
        _dropped(model.dropout),
        "s = nn.functional.cosine_similarity(h, self.aux[None], dim=1)",
        f"k = torch.exp(-(((s[:, None] - s) / {model.sigma!r}) ** 2))",
        "z = (k @ h) / k.sum(1, keepdim=True)",
        "h = self.classifier(torch.cat([h, z], dim=1))",
    ]
    weights = _renamed(p, {f"{c}.weight": f"{c}.lin.weight" for c in ("conv1", "conv2")})
    return _source(layers, steps, weights, "GCNConv", weighted=True)


def _disen(model: Disen, p: Mapping[str, Tensor]) -> Source:
    layers = [
        _layer(name, "nn.Linear", *p[f"{name}.weight"].shape) for name in ("lin", "classifier")
    ]
    convolution = [
        f"    x = nn.functional.normalize(h.view(-1, {model.factors}, {model.hidden}), dim=2)",
        "    u, z = x, x[source]",
        "    place = target.view(-1, 1, 1).expand(-1, x.size(1), x.size(2))",
        f"    for _ in range({model.routings}):",
        "        p = (z * u[target]).sum(2).softmax(dim=1)",
        "        u = x.scatter_add(0, place, z * p.unsqueeze(2))",
        "        u = nn.functional.normalize(u, dim=2)",
        "    h = nn.functional.leaky_relu(u).flatten(1)",
    ]
    dropped = _dropped(model.dropout)
    steps = [
        "source, target = edge_index[0], edge_index[1]",
        "h = nn.functional.leaky_relu(self.lin(x))",
        dropped,
        f"for _ in range({model.layers}):",
        *convolution,
        f"    {dropped}" if dropped else "",
        "h = self.classifier(h)",
    ]
    return _source(layers, steps, _renamed(p, {}))


def _gin(model: GIN, p: Mapping[str, Tensor]) -> Source:
    layers = [_layer("input", "nn.Linear", *p["input.weight"].shape)]
    steps = ["h = self.input(x)"]
    names: dict[str, str] = {}
    for layer in range(1, model.layers + 1):
        conv, wide = f"conv{layer}", model.hidden
        mlp = f"nn.Sequential(nn.Linear({wide}, {wide}), nn.ReLU(), nn.Linear({wide}, {wide}))"
        layers.append(f"self.{conv} = GINConv({mlp})")
        steps += [f"h = self.{conv}(h, edge_index).relu()", _dropped(model.dropout)]
        for lin, place in (("lin1", 0), ("lin2", 2)):
            names |= {f"{conv}.{lin}.{w}": f"{conv}.nn.{place}.{w}" for w in ("weight", "bias")}
    layers += [_layer(n, "nn.Linear", *p[f"{n}.weight"].shape) for n in ("post", "classifier")]
    steps += ["h = self.post(h).relu()", _dropped(model.dropout), "h = self.classifier(h)"]
    eps = {f"conv{layer}.eps": torch.zeros(1) for layer in range(1, model.layers + 1)}
    return _source(layers, steps, _renamed(p, names) | eps, "GINConv")


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
    GAMLP: _gamlp,
    AuxGCN: _aux_gcn,
    Disen: _disen,
    GIN: _gin,
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
