from dataclasses import replace

import numpy as np
import pytest
import torch
from support import make, small_parties, train, values

from atoll.errors import AtollError
from atoll.leaves import Ragged, Rows
from atoll.methods.ppfl import PpflDeepWalk
from atoll.methods.ppfl.sharing import Choice, ChosenLike
from atoll.partition.anchors import matched

NAMES = ("ppfl-deepwalk", "ppfl-gat")


def positions(choice: Choice, graph, seed: int = 0) -> list[int]:
    return choice.of(graph, np.random.default_rng(seed)).tolist()


def test_a_choice_by_degree_is_by_the_clients_own_links():
    parties, _ = matched(small_parties("ppfl-gat"))
    graph = parties[0]
    degree = np.diff(graph.adjacency.indptr)[graph.anchors]
    high = positions(Choice(3, "high-degree", ()), graph)
    low = positions(Choice(3, "low-degree", ()), graph)
    assert sorted(degree[high]) == sorted(degree)[-3:]
    assert sorted(degree[low]) == sorted(degree)[:3]
    assert high == sorted(high)


def test_a_list_comes_before_a_count():
    parties, _ = matched(small_parties("ppfl-gat"))
    graph = parties[0]
    names = tuple(str(i) for i in graph.ids[graph.anchors[[5, 1, 6]]])
    assert positions(Choice(0, "any", names), graph) == [1, 5, 6]
    two = positions(Choice(2, "any", names), graph)
    assert len(two) == 2
    assert set(two) < {1, 5, 6}
    assert positions(Choice(0, "any", ("nobody",)), graph) == []
    assert positions(Choice(99, "low-degree", ()), graph) == list(range(8))


@pytest.mark.parametrize("name", NAMES)
def test_only_chosen_nodes_are_sent_and_come_back(name):
    parties = small_parties(name)
    method = make(name, share_at_most=5, share_prefer="high-degree")
    outcome = train(method, parties, rounds=2)
    assert outcome.server["public/vectors"].sizes == (5,) * 6
    up = outcome.fed.ledger.table().filter(direction="up", step="train")
    width = values(outcome.server["public/vectors"]).shape[1]
    # 5 vectors of 8 bytes per number, and 5 positions of 4 bytes.
    assert set(up["bytes"]) == {5 * width * 8, 5 * 4}


def test_nodes_that_are_kept_back_stay_where_they_are():
    """At a vanishing learning rate a round does nothing but take what arrived."""
    parties, _ = matched(small_parties("ppfl-deepwalk"))
    method = make("ppfl-deepwalk", lr=1e-12, share_at_most=3)
    before, after = (train(method, parties, rounds=r) for r in (1, 2))
    for k, graph in enumerate(parties):
        old, new = (o.clients["vectors/nodes"].blocks()[k] for o in (before, after))
        at = before.clients["shared/at"].blocks()[k].numpy()
        sent = before.server["public/vectors"].blocks()[k]
        torch.testing.assert_close(new[graph.anchors[at]], sent, rtol=0, atol=1e-6)
        kept = np.setdiff1d(np.arange(graph.nodes), graph.anchors[at])
        torch.testing.assert_close(new[kept], old[kept], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_sharing_more_than_there_is_is_sharing_all(name):
    parties = small_parties(name)
    everything = train(make(name), parties, rounds=2)
    generous = train(make(name, share_at_most=1000), parties, rounds=2)
    torch.testing.assert_close(
        values(generous.server["public/vectors"]), values(everything.server["public/vectors"])
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_client_per_node_through_bytes_gives_the_same(name):
    parties = small_parties(name)
    method = make(name, share_at_most=4)
    together = train(method, parties, rounds=2)
    apart = train(method, parties, rounds=2, wire=True)
    torch.testing.assert_close(
        values(apart.server["public/vectors"]), values(together.server["public/vectors"])
    )


def test_positions_beyond_a_clients_own_anchors_are_refused():
    row = torch.zeros(2)
    at = Ragged(torch.tensor([0, 3, 0, 4], dtype=torch.int32), (2, 2))
    leaf = Rows(at, Ragged(torch.zeros(4, 2), (2, 2)))
    assert ChosenLike(row, {7: 5, 8: 5}).misfits(leaf, [7, 8]) == {}
    assert ChosenLike(row, {7: 5, 8: 4}).misfits(leaf, [7, 8]) == {1: "names row 4 of 4 anchors"}
    unsorted = replace(leaf, at=Ragged(torch.tensor([3, 0, 0, 4], dtype=torch.int32), (2, 2)))
    assert set(ChosenLike(row, {7: 5, 8: 5}).misfits(unsorted, [7, 8])) == {0}
    assert set(ChosenLike(row, {7: 5}).misfits(torch.zeros(1, 2), [7])) == {0}


def test_training_ends_when_the_spaces_come_no_nearer():
    method = make("ppfl-deepwalk", patience=2, progress=0.05)

    def finished(*precision):
        table = torch.tensor(precision, dtype=torch.float64)[:, None].expand(-1, 3)
        return method.finished({"alignment": {"precision": table}})

    assert not finished(0.1, 0.1)
    assert not finished(0.1, 0.2, 0.2)
    assert finished(0.1, 0.2, 0.2, 0.24)
    assert not finished(0.1, 0.2, 0.2, 0.26)
    assert not make("ppfl-deepwalk").finished({"alignment": {"precision": torch.ones(9, 3)}})
    still = {"alignment": {"precision": torch.ones(99, 3)}}
    assert make("ppfl-deepwalk").finished(still)
    assert not make("ppfl-gat").finished(still)  # its classifier may still learn


def test_a_negative_count_is_refused():
    with pytest.raises(AtollError, match=r"method\.share_at_most is -1"):
        PpflDeepWalk(share_at_most=-1)
