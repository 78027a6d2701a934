"""Models on weighted edges equal PyG's layers with edge_weight."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.models.appnp import APPNP
from atoll.models.gcn import GCN
from atoll.models.module import Module
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.rng import stream
from small_federations import community_parties

geometric = pytest.importorskip("torch_geometric.nn")


def weighted_parties(directed=False):
    """Parties whose edges weigh something, the same in both directions unless directed."""
    parties = []
    for k, graph in enumerate(community_parties()):
        dice = np.random.default_rng(k)
        table = dice.gamma(1.0, size=(graph.nodes, graph.nodes))
        table = table if directed else table + table.T
        edges = graph.edges[:, dice.random(graph.edges.shape[1]) < 0.7] if directed else graph.edges
        parties.append(replace(graph, edges=edges, weights=table[edges[0], edges[1]]))
    return parties


def gcn(p, x, edges, weight):
    h = x
    for name in ("conv1", "conv2"):
        layer = geometric.GCNConv(*p[f"{name}.weight"].shape)
        layer.lin.weight.data, layer.bias.data = p[f"{name}.weight"].T, p[f"{name}.bias"]
        h = layer(h, edges, weight) if name == "conv2" else layer(h, edges, weight).relu()
    return h.relu() @ p["classifier.weight"] + p["classifier.bias"]


def sgc(p, x, edges, weight):
    layer = geometric.SGConv(*p["weight"].shape, K=2)
    layer.lin.weight.data, layer.lin.bias.data = p["weight"].T, p["bias"]
    return layer(x, edges, weight)


def appnp(p, x, edges, weight):
    h = (x @ p["lin1.weight"] + p["lin1.bias"]).relu() @ p["lin2.weight"] + p["lin2.bias"]
    return geometric.APPNP(K=10, alpha=0.1)(h, edges, weight)


def sage(p, x, edges, weight):
    """GraphConv adds weighted neighbours; divided by the sum of weights that is their mean."""
    h = x
    total = torch.zeros(len(x), dtype=x.dtype).index_add(0, edges[1], weight)
    share = weight / total[edges[1]]
    for name in ("sage1", "sage2"):
        layer = geometric.GraphConv(*p[f"{name}.self"].shape, aggr="add")
        layer.lin_rel.weight.data = p[f"{name}.neighbour"].T
        layer.lin_rel.bias.data = p[f"{name}.bias"]
        layer.lin_root.weight.data = p[f"{name}.self"].T
        h = layer(h, edges, share) if name == "sage2" else layer(h, edges, share).relu()
    return h


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize(
    ("model", "reference"),
    [(GCN(hidden=5), gcn), (SGC(), sgc), (APPNP(hidden=5), appnp), (SAGE(hidden=5), sage)],
    ids=["gcn", "sgc", "appnp", "sage"],
)
def test_weighted_models_equal_pyg(model, reference, directed):
    graphs = weighted_parties(directed)
    cohort = Cohort(graphs, dtype=torch.float64)
    params = [
        model.init(cohort.features, cohort.classes, stream(seed, "init"))
        for seed in range(len(graphs))
    ]
    params_K = {name: torch.stack([p[name] for p in params]) for name in params[0]}
    with torch.no_grad():
        ours = torch.split(model.apply(params_K, cohort), list(cohort.sizes))
        for graph, p, scores in zip(graphs, params, ours, strict=True):
            x = torch.from_numpy(dense(graph.x)).double()
            edges, weight = torch.from_numpy(graph.edges), torch.from_numpy(graph.weights)
            torch.testing.assert_close(scores, reference(p, x, edges, weight))


def test_a_module_is_given_the_weights_if_it_takes_them():
    graphs = weighted_parties()[:1]
    cohort = Cohort(graphs, dtype=torch.float64)
    bare = Cohort([replace(graphs[0], weights=None)], dtype=torch.float64)

    class Blind(torch.nn.Module):
        def __init__(self, features, classes):
            super().__init__()
            self.layer = geometric.GCNConv(features, classes)

        def forward(self, x, edge_index):
            return self.layer(x, edge_index)

    for factory, sees in ((geometric.GCNConv, True), (Blind, False)):
        model = Module(factory=factory)
        params = model.init(cohort.features, cohort.classes, stream(0, "init"))
        params_K = {name: p[None] for name, p in params.items()}
        same = torch.equal(model.apply(params_K, cohort), model.apply(params_K, bare))
        assert same is not sees
