import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.methods.fed_pub.proxy import proxy_cohort, proxy_graph
from atoll.models.gcn import GCN
from atoll.rng import stream


def test_the_block_model_has_the_papers_sizes_and_densities():
    graph = proxy_graph("sbm", 7, 2, 0.01, stream(0))
    assert (graph.nodes, graph.features) == (500, 7)
    block = np.arange(500) // 100
    same = block[graph.edges[0]] == block[graph.edges[1]]
    assert same.sum() / (500 * 99) == pytest.approx(0.1, rel=0.1)
    assert (~same).sum() / (500 * 400) == pytest.approx(0.01, rel=0.1)
    assert graph.x.std() == pytest.approx(1.0, abs=0.05)


def test_the_other_proxies():
    er, sbm = (proxy_graph(kind, 3, 2, 0.01, stream(0)) for kind in ("er", "sbm"))
    assert er.edges.shape[1] == pytest.approx(sbm.edges.shape[1], rel=0.1)
    assert proxy_graph("one", 3, 2, 0.01, stream(0)).nodes == 1


def test_models_see_the_shared_graph_as_they_would_their_own():
    cohort = proxy_cohort("sbm", 5, 2, 0.01, 3, torch.float64, 0)
    model = GCN(hidden=4)
    each = [model.init(5, 2, stream(k)) for k in range(3)]
    params_K = {name: torch.stack([p[name] for p in each]) for name in each[0]}
    apart = Cohort(cohort.graphs, dtype=torch.float64)
    torch.testing.assert_close(model.embed(params_K, cohort), model.embed(params_K, apart))
