"""Training looks at training nodes alone, and finds what it would find among all nodes."""

from dataclasses import replace

import pytest
import torch

from atoll import kernels
from atoll.cohort import Cohort
from atoll.leaves import Ragged
from atoll.methods.fed_gnn.halo import with_halo
from atoll.methods.fed_sage_plus.mending import mend
from atoll.models.gcn import GCN
from atoll.ops.ragged import segment_mean
from atoll.rng import CohortRng, stream
from atoll.tasks.node_loss import nll
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_federations import community_parties

NODES = NodeClassification()


def parties():
    return Cohort(community_parties((9, 14, 11)), dtype=torch.float64)


def without_labels():
    """The second client has nothing to train on."""
    graphs = list(parties().graphs)
    graphs[1] = replace(graphs[1], train=graphs[1].train & False)
    return Cohort(graphs, dtype=torch.float64)


def mended():
    counts = Ragged(torch.arange(34) % 2, (9, 14, 11))
    rows = Ragged(torch.rand(17, 24, dtype=torch.float64), (4, 7, 6))
    return mend(parties(), counts, rows)


def with_halo_nodes():
    hosts = Ragged(torch.tensor([0, 3, 1]), (2, 0, 1))
    return with_halo(parties(), hosts, Ragged(torch.ones(3, 6).double(), hosts.sizes), {"gcn^1": 6})


@pytest.mark.parametrize("make", [parties, without_labels, mended, with_halo_nodes])
@pytest.mark.parametrize("head", ["linear", "graph"])
def test_the_loss_is_that_of_the_scores_of_all_nodes(make, head):
    cohort, model = make(), GCN(hidden=6, head=head)
    one = model.init(cohort.features, cohort.classes, stream(0, "model"))
    params_K = {name: p.requires_grad_() for name, p in replicated(one, cohort.k).items()}

    def rng():
        return CohortRng(0, cohort.clients, 1, "train")

    near = cohort.k_hop(model.reach, "train")
    for found, expected in (
        (NODES.loss(model, params_K, cohort, rng()), nll(model.apply(params_K, near, rng()), near)),
        (NODES.loss(model, params_K, cohort), nll(model.apply(params_K, cohort), cohort)),
    ):
        torch.testing.assert_close(found, expected)
        leaves = list(params_K.values())
        torch.testing.assert_close(
            torch.autograd.grad(found.sum(), leaves), torch.autograd.grad(expected.sum(), leaves)
        )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("head", ["linear", "graph"])
@pytest.mark.parametrize("on_kernels", [True, False])
def test_the_mean_embedding_is_the_mean_of_the_nodes(on_kernels, head, bias):
    cohort, model = parties(), GCN(hidden=20, head=head, bias=bias)
    params_K = replicated(model.init(cohort.features, cohort.classes, stream(0, "model")), cohort.k)
    torch.manual_seed(0)
    params_K = {name: p + 0.1 * torch.randn_like(p) for name, p in params_K.items()}
    with torch.no_grad(), kernels.switched(on_kernels):
        found = model.mean_embedding(params_K, cohort)
        of_nodes = model.embed(params_K, cohort)
    torch.testing.assert_close(found, segment_mean(of_nodes, cohort.batch, cohort.k))


def test_a_model_that_is_not_a_number_has_no_number_for_an_embedding():
    cohort, model = parties(), GCN(hidden=20)
    params_K = replicated(model.init(cohort.features, cohort.classes, stream(0, "model")), cohort.k)
    params_K["conv1.bias"][1, 3] = torch.nan
    with torch.no_grad():
        found = model.mean_embedding(params_K, cohort)
    assert found.isnan().any(1).tolist() == [False, True, False]
