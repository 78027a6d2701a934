"""FedGCN: complete sums are those of the whole graph, and training is then training on it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import assert_same_model, engine, make, train

from atoll.errors import AtollError
from atoll.graph import Graph, dense, make_graph
from atoll.leaves import Ragged
from atoll.methods.base import Info
from atoll.methods.fed_gcn.completed import completed
from atoll.models.gcn import GCN
from atoll.models.sage import SAGE
from atoll.models.sgc import SGC
from atoll.optimizers.sgd import SGD
from atoll.partition.anchors import matched
from atoll.partition.borders import Borders, with_border
from atoll.partition.network import entity_rows
from atoll.tree import nested, under
from small_federations import community_parties


def whole_graph(weights: bool = False) -> Graph:
    """A hundred nodes with links all over; every row has features."""
    [graph] = community_parties((100,), seed=4)
    x = dense(graph.x).copy()
    x[:, 0] += 0.1 + np.arange(100) / 1000
    if weights:
        a = graph.adjacency.toarray() * np.add.outer(np.arange(100), np.arange(100)) / 100
        return replace(graph, x=x, weights=a[graph.edges[1], graph.edges[0]])
    return replace(graph, x=x)


def cut(graph: Graph, clients: int = 4) -> list[Graph]:
    return Borders(clients=clients, by="random").cut(graph, np.random.default_rng(1))


def exchanged(method, parties):
    """The cohort as clients see it after the exchange, and the server's state."""
    parties, anchors = matched(parties)
    fed, [host] = engine(method, parties, None, 0, 0, False)
    info = Info(len(parties), parties[0].features, parties[0].classes, torch.float64, anchors)
    fed.begin(1)
    server = method.exchange(fed, method.start(info, 0))
    border = nested(host.state)["border"]
    return completed(host.cohort, border["degree"], border["further"]), server, fed


def propagated(graph: Graph) -> np.ndarray:
    """``D^-1/2 (A + I) D^-1/2 X`` of a whole graph."""
    loops = graph.weighted_adjacency.toarray() + np.eye(graph.nodes)
    scale = 1 / np.sqrt(loops.sum(1))
    return scale[:, None] * loops * scale @ dense(graph.x).astype(np.float64)


def test_a_border_has_ids_and_nothing_else():
    """0 - 1 - 2 - 3 with 0 and 1 at one client: of node 2 it has a bare copy, of 3 nothing."""
    x, y = np.arange(1.0, 5.0, dtype=np.float32)[:, None], np.array([0, 1, 0, 1])
    graph = make_graph(x, np.array([[0, 1, 2], [1, 2, 3]]), y, classes=2)
    every = np.ones(4, dtype=bool)
    graph = replace(graph, train=every, val=every, test=every)
    party = graph.held(with_border(graph, np.array([0, 1]), "client"))
    assert party.ids.tolist() == graph.ids[:3].tolist()
    assert party.x[:, 0].tolist() == [1.0, 2.0, 0.0]
    assert party.y.tolist() == [0, 1, -1]
    assert party.train.tolist() == party.test.tolist() == [True, True, False]
    assert party.edge_count == 2


def test_no_edge_is_lost():
    graph = whole_graph()
    for party in cut(graph):
        rows = entity_rows(graph, party)
        own = party.y >= 0
        np.testing.assert_array_equal(
            party.adjacency.sum(1)[own], graph.adjacency.sum(1)[rows[own]]
        )


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("hops", [1, 2])
def test_complete_sums_are_those_of_the_whole_graph(hops, weights):
    graph = whole_graph(weights)
    parties = cut(graph)
    cohort, _, _ = exchanged(make("fed-gcn", hops=hops, floor=1), parties)
    expected = propagated(graph)
    for party, found in zip(parties, cohort.inputs.propagated_K("gcn", 1), strict=True):
        rows = entity_rows(graph, party)
        shown = np.ones(party.nodes, dtype=bool) if hops == 2 else party.y >= 0
        np.testing.assert_allclose(dense(found)[shown], expected[rows[shown]], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "model", [GCN(hidden=8, dropout=0.0), GCN(hidden=8, dropout=0.0, head="graph"), SGC(hops=1)]
)
def test_one_step_per_round_is_training_on_the_whole_graph(model):
    graph = whole_graph()
    options = {"model": model, "optimizer": SGD(lr=0.3, weight_decay=1e-3)}
    pooled = train(make("centralized", **options), [graph])
    found = train(make("fed-gcn", floor=1, **options), cut(graph))
    for name, leaf in under(found.server, "model").items():
        torch.testing.assert_close(
            under(pooled.clients, "model")[name][0], leaf, atol=1e-10, rtol=0
        )


def test_one_client_is_local_training():
    alone = community_parties((30,))
    assert_same_model(train(make("local"), alone).clients, train(make("fed-gcn"), alone).clients)


def star() -> list[Graph]:
    """Node 0 at the first client; of its neighbours 1, 2, 3 the second one has two."""
    x = np.eye(4, dtype=np.float32) + 1
    graph = make_graph(x, np.array([[0, 0, 0], [1, 2, 3]]), np.zeros(4, dtype=int), classes=2)
    graph = replace(graph, train=np.ones(4, dtype=bool))
    owners = (np.array([0]), np.array([1, 2]), np.array([3]))
    return [graph.held(with_border(graph, own, f"client {k}")) for k, own in enumerate(owners)]


def told(method):
    """What the first client was told of its node, and the others of theirs."""
    cohort, server, fed = exchanged(method, star())
    parts = zip(cohort.inputs.propagated_K("gcn", 1), cohort.graphs, strict=True)
    return [dense(x) for x, _ in parts], server, fed


def test_a_sum_over_too_few_nodes_of_others_is_withheld():
    """Degrees with loops: 4 in the middle, 2 at each end."""
    x = np.eye(4) + 1
    found, _, _ = told(make("fed-gcn", hops=1, floor=3))
    everybody = x[0] / 4 + (x[1] + x[2] + x[3]) / np.sqrt(8)
    np.testing.assert_allclose(found[0][0], everybody, atol=1e-10)
    # Nodes at the ends have one neighbour elsewhere, whose features its sum would be.
    np.testing.assert_allclose(found[2][0], x[3] / 2, atol=1e-10)
    found, server, _ = told(make("fed-gcn", hops=1, floor=4))
    np.testing.assert_allclose(found[0][0], x[0] / 4, atol=1e-10)
    assert {name: int(n) for name, n in server["exchange"].items()} == {"due": 4, "given": 0}
    [remark] = make("fed-gcn", floor=4).remarks(server, None)
    assert remark.startswith("4 of 4 sums")
    assert "method.floor (4)" in remark


def test_what_is_withheld_from_all_is_not_even_made():
    _, _, fed = told(make("fed-gcn", hops=1, floor=4))
    assert "neighbours/sum" not in set(fed.ledger.table().filter(direction="up")["name"])
    _, _, fed = told(make("fed-gcn", hops=1, floor=3))
    made = fed.ledger.table().filter(direction="up", name="neighbours/sum")
    assert set(made["shape"]) == {"[1, 4]"}


def test_a_client_learns_of_a_copy_what_it_does_not_know_itself():
    """Two hops, floor 2: of the middle, its ends know all but their own; the node counts too."""
    x = np.eye(4) + 1
    found, _, _ = told(make("fed-gcn", hops=2, floor=2))
    everybody = x[0] / 4 + (x[1] + x[2] + x[3]) / np.sqrt(8)
    np.testing.assert_allclose(found[1][2], everybody, atol=1e-10)
    np.testing.assert_allclose(found[2][1], everybody, atol=1e-10)


def test_features_that_several_have_are_added_by_nobody():
    """Two clients hold a - b, both with features, and the second one a - c: only c is new."""

    def party(x, edges, ids):
        x = np.array(x, dtype=np.float32)[:, None]
        y = np.zeros(len(x), dtype=int)
        graph = make_graph(x, np.array(edges).T, y, classes=2, ids=np.array(ids))
        return replace(graph, train=np.ones(len(x), dtype=bool))

    parties = [
        party([1, 2], [[0, 1]], ["a", "b"]),
        party([1, 2, 5], [[0, 1], [0, 2]], ["a", "b", "c"]),
    ]
    cohort, _, _ = exchanged(make("fed-gcn", floor=1), parties)
    first, second = (dense(x)[0, 0] for x in cohort.inputs.propagated_K("gcn", 1))
    # Degrees with loops: a has 3 (itself, b, c), b and c have 2.
    expected = 1 / 3 + 2 / np.sqrt(6) + 5 / np.sqrt(6)
    assert first == pytest.approx(expected, abs=1e-7)
    assert second == pytest.approx(expected, abs=1e-7)


def test_a_client_that_shares_nothing_is_left_as_it_is():
    alone = community_parties((12,), features=4, classes=2)
    apart = [replace(graph, x=dense(graph.x)) for graph in (*star(), *alone)]
    cohort, _, _ = exchanged(make("fed-gcn", floor=1), apart)
    found = dense(cohort.inputs.propagated_K("gcn", 1)[3])
    np.testing.assert_allclose(found, propagated(alone[0]), atol=1e-10)


def test_edges_with_a_direction_count_where_they_lead():
    """Sums are over the sources of edges into a node, and so are degrees."""
    graph = whole_graph()
    graph = replace(graph, edges=graph.edges[:, graph.edges[0] < graph.edges[1]])
    parties = cut(graph)
    cohort, _, _ = exchanged(make("fed-gcn", floor=1), parties)
    expected = propagated(graph)
    for party, found in zip(parties, cohort.inputs.propagated_K("gcn", 1), strict=True):
        own = party.y >= 0
        rows = entity_rows(graph, party)[own]
        np.testing.assert_allclose(dense(found)[own], expected[rows], rtol=0, atol=1e-10)


def test_a_run_without_neighbours_elsewhere_says_so():
    method = make("fed-gcn")
    nothing = {"exchange": {"due": torch.tensor(0), "given": torch.tensor(0)}}
    assert "partition.name=borders" in method.remarks(nothing, None)[0]


def test_models_with_another_first_operator_are_refused():
    with pytest.raises(AtollError, match=r"model 'sage'; set model\.name=gcn"):
        make("fed-gcn", model=SAGE(hidden=4))


def test_the_completed_cohort_is_kept_between_steps():
    cohort, _, _ = exchanged(make("fed-gcn", floor=1), cut(whole_graph()))
    home = cohort.with_graphs(cohort.graphs)
    ones = Ragged(torch.ones(sum(home.anchors.sizes)), home.anchors.sizes)
    sums = Ragged(torch.ones(sum(home.anchors.sizes), home.features), home.anchors.sizes)
    assert completed(home, ones, sums) is completed(home, ones.clone(), sums.clone())
