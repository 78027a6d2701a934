"""Each K-aware model equals PyG's own layers on the same weights, client by client."""

import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.models.appnp import APPNP
from atoll.models.base import models
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.rng import stream
from atoll.tasks.nodes import NodeClassification
from small_federations import community_parties

geometric = pytest.importorskip("torch_geometric.nn")


def gcn(p, x, edges):
    f, hidden = p["conv1.weight"].shape
    one, two = geometric.GCNConv(f, hidden), geometric.GCNConv(hidden, p["conv2.bias"].shape[0])
    for layer, name in ((one, "conv1"), (two, "conv2")):
        layer.lin.weight.data, layer.bias.data = p[f"{name}.weight"].T, p[f"{name}.bias"]
    h = two(one(x, edges).relu(), edges)
    if "classifier.weight" not in p:
        return h
    return h.relu() @ p["classifier.weight"] + p["classifier.bias"]


def sgc(p, x, edges):
    layer = geometric.SGConv(*p["weight"].shape, K=2)
    layer.lin.weight.data, layer.lin.bias.data = p["weight"].T, p["bias"]
    return layer(x, edges)


def sage(p, x, edges):
    h = x
    for name in ("sage1", "sage2"):
        layer = geometric.SAGEConv(*p[f"{name}.self"].shape)
        layer.lin_l.weight.data, layer.lin_l.bias.data = p[f"{name}.neighbour"].T, p[f"{name}.bias"]
        layer.lin_r.weight.data = p[f"{name}.self"].T
        h = layer(h, edges) if name == "sage2" else layer(h, edges).relu()
    return h


def gat(p, x, edges):
    h = x
    for name in ("gat1", "gat2"):
        heads, width = p[f"{name}.source"].shape
        layer = geometric.GATConv(h.shape[1], width, heads=heads)
        layer.lin.weight.data, layer.bias.data = p[f"{name}.weight"].T, p[f"{name}.bias"]
        layer.att_src.data, layer.att_dst.data = (
            p[f"{name}.source"][None],
            p[f"{name}.target"][None],
        )
        h = layer(h, edges) if name == "gat2" else torch.nn.functional.elu(layer(h, edges))
    return h


def mlp(p, x, edges):
    return (x @ p["lin1.weight"] + p["lin1.bias"]).relu() @ p["lin2.weight"] + p["lin2.bias"]


def appnp(p, x, edges):
    return geometric.APPNP(K=10, alpha=0.1)(mlp(p, x, edges), edges)


CASES = {
    "gcn with a linear head": (GCN(hidden=7), gcn),
    "gcn": (GCN(hidden=7, head="graph"), gcn),
    "sgc": (SGC(), sgc),
    "sage": (SAGE(hidden=7), sage),
    "gat": (GAT(hidden=3, heads=4), gat),
    "mlp": (MLP(hidden=7), mlp),
    "appnp": (APPNP(hidden=7), appnp),
}


def stacked_weights(model, cohort):
    each = [
        model.init(cohort.features, cohort.classes, stream(client)) for client in cohort.clients
    ]
    return {name: torch.stack([p[name] for p in each]).float() for name in each[0]}


@pytest.mark.parametrize("dense_features", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_stacked_model_equals_pyg(case, dense_features):
    model, reference = CASES[case]
    cohort = Cohort(community_parties(dense=dense_features))
    params_K = stacked_weights(model, cohort)
    expected = [
        reference(
            {name: p[k] for name, p in params_K.items()},
            torch.from_numpy(dense(graph.x)),
            torch.from_numpy(graph.edges),
        )
        for k, graph in enumerate(cohort.graphs)
    ]
    with torch.no_grad():
        scores = model.apply(params_K, cohort)
    torch.testing.assert_close(scores, torch.cat(expected).detach(), rtol=1e-5, atol=1e-5)


def test_every_stacked_model_is_compared():
    assert {model.registered_name for model, _ in CASES.values()} == set(models) - {"module"}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_one_client_do_not_reach_another(case):
    model, _ = CASES[case]
    cohort = Cohort(community_parties(), dtype=torch.float64)
    params_K = {n: p.double().requires_grad_() for n, p in stacked_weights(model, cohort).items()}
    loss_K = NodeClassification().loss(model, params_K, cohort)
    for grad in torch.autograd.grad(loss_K[2], list(params_K.values())):
        assert grad[2].abs().sum() > 0
        assert grad[[0, 1, 3, 4, 5]].abs().sum() == 0
