"""What inputs of different kinds promise alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.cohort.dual import Dual, dual_of
from atoll.cohort.k_hop import KHop
from atoll.graph import node_mask
from atoll.leaves import Ragged
from atoll.methods.fed_gnn.halo import with_halo
from atoll.methods.fed_sage_plus.mending import mend
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.tasks.base import Task
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_federations import community_parties

NODES = NodeClassification()
SIZES = (40, 30, 50)


def whole():
    parties = [
        replace(g, train=node_mask(np.array([3, 7]), g.nodes))
        for g in community_parties(SIZES, features=90)
    ]
    return Cohort(parties, dtype=torch.float64)


def neighbourhood():
    return whole().k_hop(0, "train")


def halo():
    hosts = Ragged(torch.tensor([0, 3, 1]), (2, 0, 1))
    embedding = Ragged(torch.ones(3, 6, dtype=torch.float64), hosts.sizes)
    return with_halo(whole(), hosts, embedding, {"gcn^1": 6})


def mended():
    counts = Ragged(torch.arange(sum(SIZES)) % 2, SIZES)
    rows = Ragged(torch.rand(60, 90, dtype=torch.float64), (20, 15, 25))
    return mend(whole(), counts, rows)


def dual(model=SGC()):  # noqa: B008
    return dual_of(whole(), model.first_layer, model.reach, "train")


@pytest.mark.parametrize("make", [whole, neighbourhood, halo, mended, dual])
def test_rows_agree_and_those_that_no_task_knows_of_have_no_label_and_no_split(make):
    cohort = make()
    n = sum(cohort.sizes)
    assert len(cohort.y) == len(cohort.batch) == n
    h = torch.rand(n, 2, dtype=torch.float64)
    assert (cohort.operator("gcn") @ h).shape == h.shape
    own = torch.cat(
        [torch.arange(size) < g.nodes for size, g in zip(cohort.sizes, cohort.graphs, strict=True)]
    )
    assert (cohort.y[~own] == -1).all()
    for split in ("train", "val", "test"):
        assert own[cohort.rows(split)].all()
    assert cohort.labelled.tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [whole, neighbourhood])
def test_some_clients_can_be_taken(make):
    cohort = make()
    one = cohort.take([2])
    assert type(one.inputs) is type(cohort.inputs)
    assert (one.clients, one.sizes) == ((2,), cohort.sizes[2:])
    weight_K = torch.rand(3, 90, 4, dtype=torch.float64)
    every = torch.split(cohort.linear(weight_K, "gcn"), list(cohort.sizes))
    torch.testing.assert_close(one.linear(weight_K[2:], "gcn"), every[2])


@pytest.mark.parametrize("make", [halo, mended, dual])
def test_further_rows_are_not_lost_by_taking_clients(make):
    with pytest.raises(TypeError, match="can't be taken apart"):
        make().take([0])


def test_a_neighbourhood_with_other_labels_keeps_its_operators():
    """Its border nodes' degrees are those of the whole graph, not of what is left of it."""
    cohort = neighbourhood()
    swapped = [g.relabelled(y=g.y, train=g.val, val=g.train, name=g.name) for g in cohort.graphs]
    other = cohort.relabelled(swapped)
    assert isinstance(other.inputs, KHop)
    weight_K = torch.rand(3, 90, 4, dtype=torch.float64)
    torch.testing.assert_close(other.linear(weight_K, "gcn"), cohort.linear(weight_K, "gcn"))


@pytest.mark.parametrize("model", [SGC(), GCN(hidden=3, dropout=0.0, head="graph")], ids=str)
def test_gradients_written_out_for_the_dual_are_those_of_automatic_differentiation(model):
    cohort = dual(model)
    assert isinstance(cohort.inputs, Dual)
    params = replicated(model.init(90, 3, np.random.default_rng(0)), 3)
    params_K = cohort.inputs.enter(params)
    assert model.vjp(params_K, cohort) is not None
    assert model.vjp(params, whole()) is None
    found = NODES.gradient(model, params_K, cohort)
    expected = Task.gradient(NODES, model, params_K, cohort)
    assert set(found) == set(expected)
    for name, g in expected.items():
        torch.testing.assert_close(found[name], g)
