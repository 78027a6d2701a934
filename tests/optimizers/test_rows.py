"""Training the rows that are clients' own is training all rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from support import NAMES, assert_same, engine, make, train

from atoll.graph import Graph
from atoll.laws.parties import community_parties
from atoll.methods.base import Info
from atoll.ops.own_rows import OwnRows
from atoll.optimizers.adam import Adam
from atoll.optimizers.sgd import SGD

FIRST = "model/conv1.weight"


def parties(shared: int = 0) -> list[Graph]:
    """Three, of which none has the words of its number, nor any the last ten."""
    found = []
    for number, graph in enumerate(community_parties((19, 25, 14), features=60, shared=shared)):
        words = np.arange(graph.features)
        has = (words % 3 != number) & (words < 50)
        found.append(replace(graph, x=sparse.csr_array(graph.x @ sparse.diags_array(has * 1.0))))
        found[-1].x.eliminate_zeros()
    return found


def few(outcome) -> bool:
    leaf = outcome.clients[FIRST]
    return isinstance(leaf, OwnRows) and leaf.compact


# One of them counts losses that stand still by a hair's breadth, in whatever way they are trained.
@pytest.mark.parametrize("name", sorted({*NAMES} - {"o-pfgl", "ppfl-deepwalk", "no-augment"}))
def test_every_method_gives_the_same_with_clients_whose_words_differ(name):
    # Clients in chunks train all rows.
    graphs = parties(shared=8 if make(name).needs_anchors else 0)
    assert_same(train(make(name), graphs), train(make(name), graphs, chunk=2), 1e-9)


@pytest.mark.parametrize("name", ["fed-avg", "local", "fed-per"])
@pytest.mark.parametrize(
    "optimizer",
    [Adam(), Adam(weight_decay=0.01), SGD(momentum=0.9), SGD(momentum=0.9, weight_decay=0.1)],
)
@pytest.mark.parametrize("keep", [True, False])
def test_optimizers_move_common_rows_alike(name, optimizer, keep):
    method = make(name, optimizer=optimizer, keep_optimizer=keep, epochs=2)
    whole = train(method, parties(), rounds=4)
    assert few(whole)
    assert_same(whole, train(method, parties(), rounds=4, chunk=1), 1e-9)


def test_going_on_from_a_checkpoint_gives_the_same_bytes():
    method = make("fed-avg", optimizer=Adam(weight_decay=0.01))
    straight = train(method, parties(), rounds=4)
    resumed = train(method, parties(), rounds=4, resumed_by=(2, method))
    assert few(resumed)
    assert_same(straight, resumed, 0.0)


def test_clients_that_sat_rounds_out_are_trained_in_full():
    method = make("fed-avg", fraction=0.67, optimizer=Adam(weight_decay=0.01))
    some = train(method, parties(), rounds=4)
    assert not few(some)
    assert_same(some, train(method, parties(), rounds=4, chunk=1), 1e-9)


def test_clients_of_different_ages_are_trained_in_full():
    method = make("fed-avg", optimizer=Adam(weight_decay=0.01))
    outcomes = []
    for chunk in (0, 1):
        fed, (host,) = engine(method, parties(), chunk=chunk)
        state = method.start(Info(3, 60, 3, torch.float64), 0)
        host.state["optimizer/steps"] += torch.tensor([0.0, 1.0, 2.0])
        for r in (1, 2):
            fed.begin(r)
            state = method.round(fed, state, r)
        outcomes.append(state["model"]["conv1.weight"])
    torch.testing.assert_close(*outcomes, rtol=1e-9, atol=1e-9)
