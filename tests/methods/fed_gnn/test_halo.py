import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import node_mask
from atoll.leaves import Ragged
from atoll.methods.fed_gnn.halo import Halo, first_products, layout, with_halo
from atoll.models.appnp import APPNP
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.rng import CohortRng
from atoll.tasks.links import LinkPrediction
from atoll.tasks.pairs import sample_negatives
from small_federations import community_parties, path_graph


def stacked(model, cohort):
    params = model.init(cohort.features, cohort.classes, np.random.default_rng(0))
    return {name: torch.stack([p] * cohort.k) for name, p in params.items()}


def halo_of(model, cohort, hosts):
    """Hosts, random embeddings of a halo node for each, and the columns of these."""
    columns = layout(model, cohort.features, cohort.classes)
    sizes, rows = tuple(map(len, hosts)), torch.tensor([row for k in hosts for row in k])
    values = torch.randn(len(rows), sum(columns.values()), dtype=torch.float64)
    return Ragged(rows, sizes), Ragged(values, sizes), columns


def extended(model, home, hosts):
    halo = halo_of(model, home, hosts)
    return home.with_inputs(Halo(home.inputs, *halo)), halo[1].values


def test_layout_names_a_models_first_products():
    assert layout(GCN(hidden=8), 5, 3) == {"gcn^1": 8}
    assert layout(SAGE(hidden=8), 5, 3) == {"mean^1": 8, "x": 8}


def test_first_product_of_a_gcn_is_its_first_layer_before_the_bias():
    cohort = Cohort(community_parties(), dtype=torch.float64)
    params = stacked(GCN(hidden=4), cohort)
    (product,) = first_products(GCN(hidden=4), params, cohort).values()
    torch.testing.assert_close(product, cohort.linear(params["conv1.weight"], propagated="gcn"))


def test_a_halo_node_reaches_its_host_by_the_second_convolution():
    """Two nodes in a row, a halo node at the second: P has entries 1/2, 1/3, 1/sqrt(6)."""
    graph = path_graph(np.array([[1.0, 0.0], [0.0, 1.0]]), [0, 1])
    home = Cohort([graph], dtype=torch.float64)
    model = GCN(hidden=3, dropout=0.0, head="graph")
    params = stacked(model, home)
    cohort, embedding = extended(model, home, [[1]])
    own = home.linear(params["conv1.weight"], propagated="gcn")
    h = torch.cat([own, embedding]).relu() @ params["conv2.weight"][0]
    a, b = 6**-0.5, 0.5
    p = torch.tensor([[b, a, 0], [a, 1 / 3, a], [0, a, b]], dtype=torch.float64)
    torch.testing.assert_close(model.apply(params, cohort), p @ h)


@pytest.mark.parametrize("model", [GCN(hidden=4), SAGE(hidden=4), GAT(), APPNP(hidden=4)])
def test_halo_nodes_change_their_hosts_and_not_other_clients(model):
    home = Cohort(community_parties((12, 10, 11)), dtype=torch.float64)
    params = stacked(model, home)
    cohort, _ = extended(model, home, [[], [3, 3, 7], []])
    assert cohort.sizes == (12, 13, 11)
    before, after = model.apply(params, home), model.apply(params, cohort)
    first, second, third = torch.split(after, [12, 13, 11])
    torch.testing.assert_close(first, before[:12])
    torch.testing.assert_close(third, before[22:])
    moved = ((second[:10] - before[12:22]).abs() > 1e-9).any(1)
    assert moved[3]
    assert moved[7]


def test_halo_nodes_have_no_label_and_no_split():
    home = Cohort(community_parties((12, 10)), dtype=torch.float64)
    cohort, _ = extended(GCN(hidden=4), home, [[0], [1, 2]])
    assert cohort.y[[12, 23, 24]].tolist() == [-1, -1, -1]
    for split in ("train", "val", "test"):
        assert len(cohort.rows(split)) == len(home.rows(split))
    assert torch.equal(cohort.labelled, home.labelled)


def test_a_model_that_never_propagates_ignores_them():
    home = Cohort(community_parties((12,)), dtype=torch.float64)
    params = stacked(MLP(hidden=4), home)
    cohort, _ = extended(MLP(hidden=4), home, [[0, 5]])
    torch.testing.assert_close(
        MLP(hidden=4).apply(params, cohort)[:12], MLP(hidden=4).apply(params, home)
    )


@pytest.mark.parametrize("model", [GCN(hidden=4, dropout=0.0), SGC()])
def test_training_depends_only_on_halo_nodes_of_training_nodes(model):
    """Node 0 trains; of the halo nodes at 0, 1 and 3 only the first can reach its class scores."""
    x = np.random.default_rng(0).normal(size=(5, 3))
    graph = path_graph(x, [0, 1, 0, 1, 0])
    one_trains = node_mask(np.array([0]), 5)
    home = Cohort(
        [graph.relabelled(y=graph.y, train=one_trains, val=~one_trains, name="path")],
        dtype=torch.float64,
    )
    params = stacked(model, home)
    cohort, _ = extended(model, home, [[1, 0, 3]])
    near = cohort.k_hop(model.reach, "train")
    assert sum(near.sizes) < sum(cohort.sizes)
    assert sum(near.sizes) - near.graphs[0].nodes == (1 if model.reach else 0)
    assert near.rows("train").tolist() == [0]
    everything = model.apply(params, cohort)[cohort.rows("train")]
    torch.testing.assert_close(model.apply(params, near)[near.rows("train")], everything)


def test_a_halo_is_remembered_until_it_changes():
    home = Cohort(community_parties((12, 10)), dtype=torch.float64)
    hosts, embedding, columns = halo_of(GCN(hidden=4), home, [[0], [1, 2]])
    cohort = with_halo(home, hosts, embedding, columns)
    copies = (Ragged(leaf.values.clone(), leaf.sizes) for leaf in (hosts, embedding))
    assert with_halo(home, *copies, columns) is cohort
    assert with_halo(home, hosts, Ragged(embedding.values + 1, (1, 2)), columns) is not cohort
    nobody = Ragged(hosts.values[:0], (0, 0))
    assert with_halo(home, nobody, Ragged(embedding.values[:0], (0, 0)), columns) is home


def test_a_task_on_links_sees_own_links_only():
    task = LinkPrediction(val=0.2, test=0.2, dimensions=4)
    parties = [
        task.prepare(g, np.random.default_rng(i)) for i, g in enumerate(community_parties((12, 10)))
    ]
    home = Cohort(parties, dtype=torch.float64)
    model = GCN(hidden=4)
    cohort, _ = extended(model, home, [[0, 0], [1]])
    positive, negative = cohort.probes("train")
    assert positive.shape == home.probes("train")[0].shape
    rng = CohortRng(0, cohort.clients, 1, "train")
    for pairs in (positive, negative, sample_negatives(cohort, rng)):
        assert not set(pairs.flatten().tolist()) & {12, 13, 24}
    assert task.loss(model, stacked(model, home), cohort).isfinite().all()
