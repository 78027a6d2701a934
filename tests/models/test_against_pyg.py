"""Each K-aware model equals PyG's own layers on the same weights, client by client."""

import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.models.appnp import APPNP
from atoll.models.aux_gcn import AuxGCN
from atoll.models.base import models
from atoll.models.disen import Disen
from atoll.models.gamlp import GAMLP
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.gin import GIN
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.models.star_gin import StarGIN
from atoll.rng import stream
from atoll.tasks.nodes import NodeClassification
from small_collections import collection_parties
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


def gamlp(p, x, edges):
    spread = geometric.APPNP(K=1, alpha=0.0)
    hops = [x]
    for _ in range(p["attention.reference"].shape[1] - 1):
        hops.append(spread(hops[-1], edges))
    common = sum(h @ p["attention.reference"][:, k] for k, h in enumerate(hops))
    own = [(h @ p["attention.own"])[:, 0] + common + p["attention.bias"] for h in hops]
    w = torch.stack(own, dim=1).sigmoid().softmax(dim=1)
    h = sum(w[:, k, None] * hop for k, hop in enumerate(hops))
    for layer in ("lin1", "lin2"):
        h = h @ p[f"{layer}.weight"] + p[f"{layer}.bias"]
        h = torch.nn.functional.prelu(h, p["slope"])
    return h @ p["lin3.weight"] + p["lin3.bias"]


def aux_gcn(p, x, edges):
    h = gcn({n: t for n, t in p.items() if n.startswith("conv")}, x, edges).relu()
    s = torch.nn.functional.cosine_similarity(h, p["aux"][None])
    k = torch.exp(-((s[:, None] - s) ** 2))
    both = torch.cat([h, (k @ h) / k.sum(1, keepdim=True)], dim=1)
    return both @ p["classifier.weight"] + p["classifier.bias"]


class Disentangled(geometric.MessagePassing):
    """One routing of DisenGCN: neighbours shared out among factors."""

    def __init__(self):
        super().__init__(aggr="sum")

    def forward(self, x, u, edges):
        n, factors, d = x.shape
        return self.propagate(edges, x=x.flatten(1), u=u.flatten(1), like=d).view(n, factors, d)

    def message(self, x_j, u_i, like):
        x_j, u_i = (t.view(len(t), -1, like) for t in (x_j, u_i))
        return (x_j * (x_j * u_i).sum(2).softmax(1)[:, :, None]).flatten(1)


def disen(p, x, edges):
    f = torch.nn.functional
    h = f.leaky_relu(x @ p["lin.weight"] + p["lin.bias"])
    for _ in range(2):
        x_k = f.normalize(h.view(len(h), 2, -1), dim=2)
        u = x_k
        for _ in range(6):
            u = f.normalize(x_k + Disentangled()(x_k, u, edges), dim=2)
        h = f.leaky_relu(u).flatten(1)
    return h @ p["classifier.weight"] + p["classifier.bias"]


def linear(p, name, h):
    return h @ p[f"{name}.weight"] + p[f"{name}.bias"]


def gin_conv(p, name, h, edges):
    two = [torch.nn.Linear(*p[f"{name}.{lin}.weight"].shape) for lin in ("lin1", "lin2")]
    conv = geometric.GINConv(torch.nn.Sequential(two[0], torch.nn.ReLU(), two[1]))
    for layer, lin in zip(two, ("lin1", "lin2"), strict=True):  # now: it draws them anew
        layer.weight.data, layer.bias.data = p[f"{name}.{lin}.weight"].T, p[f"{name}.{lin}.bias"]
    return conv(h, edges)


def classified(p, h, batch):
    if batch is not None:
        h = geometric.global_add_pool(h, batch)
    return linear(p, "classifier", linear(p, "post", h).relu())


def gin(p, x, edges, batch=None):
    h = linear(p, "input", x)
    for name in ("conv1", "conv2", "conv3"):
        h = gin_conv(p, name, h, edges).relu()
    return classified(p, h, batch)


def returns(edges, n, walks):
    """Chances of random walks to be back, from powers of a dense matrix."""
    a = torch.zeros(n, n)
    a[edges[1], edges[0]] = 1.0
    m = a / a.sum(0).clamp(min=1)
    power, found = torch.eye(n), []
    for _ in range(walks):
        power = m @ power
        found.append(power.diagonal())
    return torch.stack(found, dim=1)


def star_gin(p, x, edges, batch=None):
    n = len(x)
    degree = torch.bincount(edges[1], minlength=n).clamp(1, 4)
    places = torch.cat([returns(edges, n, 5), torch.nn.functional.one_hot(degree - 1, 4)], dim=1)
    s, h = linear(p, "structure.input", places), linear(p, "input", x)
    for name in ("conv1", "conv2", "conv3"):
        h = gin_conv(p, name, torch.cat([h, s], dim=1), edges).relu()
        layer = geometric.GCNConv(*p[f"structure.{name}.weight"].shape)
        layer.lin.weight.data = p[f"structure.{name}.weight"].T
        layer.bias.data = p[f"structure.{name}.bias"]
        s = layer(s, edges).tanh()
    return classified(p, linear(p, "join", torch.cat([h, s], dim=1)), batch)


CASES = {
    "gcn with a linear head": (GCN(hidden=7), gcn),
    "gcn": (GCN(hidden=7, head="graph"), gcn),
    "sgc": (SGC(), sgc),
    "sage": (SAGE(hidden=7), sage),
    "gat": (GAT(hidden=3, heads=4), gat),
    "mlp": (MLP(hidden=7), mlp),
    "appnp": (APPNP(hidden=7), appnp),
    "gamlp": (GAMLP(hidden=7), gamlp),
    "aux-gcn": (AuxGCN(hidden=7), aux_gcn),
    "disen": (Disen(hidden=4), disen),
    "gin": (GIN(hidden=7), gin),
    "star-gin": (StarGIN(hidden=7, walks=5, degrees=4), star_gin),
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


@pytest.mark.parametrize("case", ["gin", "star-gin"])
def test_small_graphs_are_read_out_as_pyg_does(case):
    model, reference = CASES[case]
    cohort = Cohort(collection_parties())
    params_K = stacked_weights(model, cohort)
    with torch.no_grad():
        found = torch.split(model.apply(params_K, cohort), list(cohort.sizes))
    for k, graph in enumerate(cohort.graphs):
        expected = reference(
            {name: p[k] for name, p in params_K.items()},
            torch.from_numpy(dense(graph.x)),
            torch.from_numpy(graph.edges),
            torch.from_numpy(graph.graph_of),
        )
        torch.testing.assert_close(
            found[k][torch.from_numpy(graph.first_nodes)],
            expected.detach(),
            rtol=1e-5,
            atol=1e-5,
        )


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
