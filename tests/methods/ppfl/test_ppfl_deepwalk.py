import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from support import make, small_parties, train, values

from atoll.errors import AtollError
from atoll.federation.host import Host
from atoll.federation.validation import without
from atoll.methods.ppfl import PpflDeepWalk
from atoll.methods.ppfl.procrustes import align
from atoll.partition.anchors import matched
from atoll.tree import kind, nested
from small_federations import community_parties, path_graph

NAME = "ppfl-deepwalk"


def overheard(monkeypatch) -> list[tuple[str, str, torch.Tensor]]:
    """(step, leaf, values) of all that leaves a client."""
    heard = []
    original = Host.perform

    def perform(self, call, to, each):
        for batch in original(self, call, to, each):
            heard.extend((call.step, n, values(v).clone()) for n, v in batch.body.items())
            yield batch

    monkeypatch.setattr(Host, "perform", perform)
    return heard


def test_only_public_nodes_vectors_leave(monkeypatch):
    """Not one row of a reply is the vector of a private node, or a context vector."""
    heard = overheard(monkeypatch)
    parties = small_parties(NAME)
    outcome = train(make(NAME), parties, rounds=2)
    sent = torch.cat([v for step, name, v in heard if name == "public/vectors"])
    assert len(sent) == 2 * 6 * 8
    sizes = [g.nodes for g in parties]
    rows = np.concatenate([np.arange(n) for n in sizes])
    vectors = values(outcome.clients["vectors/nodes"])
    contexts = values(outcome.clients["contexts/nodes"])
    # The last 48 rows sent are the first 8 nodes' vectors of each party, and nothing else is.
    assert torch.equal(sent[-48:], vectors[rows < 8])
    for secret in (vectors[rows >= 8], contexts):
        assert not (secret[:, None] == sent[None]).all(-1).any()
    assert {kind(name) for _, name, _ in heard} == {"public", "metric"}


def test_the_server_returns_each_clients_own_average():
    parties, numbers = matched(small_parties(NAME))
    outcome = train(make(NAME), parties, rounds=1)
    blocks = outcome.clients["vectors/nodes"].blocks()
    public = [b[g.anchors] for b, g in zip(blocks, parties, strict=True)]
    expected = align(public, numbers, (1, 5, 10))
    for sent, mean in zip(outcome.server["public/vectors"].blocks(), expected.means, strict=True):
        torch.testing.assert_close(sent, mean)
    torch.testing.assert_close(outcome.server["alignment/precision"], expected.precision[None])


def test_averages_take_the_place_of_public_rows_before_training_goes_on():
    """At a vanishing learning rate a round does nothing else."""
    parties, _ = matched(small_parties(NAME))
    method = make(NAME, lr=1e-12)
    before = train(method, parties, rounds=1)
    after = train(method, parties, rounds=2)
    for k, graph in enumerate(parties):
        old, new = (o.clients["vectors/nodes"].blocks()[k] for o in (before, after))
        private = np.setdiff1d(np.arange(graph.nodes), graph.anchors)
        sent = before.server["public/vectors"].blocks()[k]
        torch.testing.assert_close(new[graph.anchors], sent, rtol=0, atol=1e-6)
        torch.testing.assert_close(new[private], old[private], rtol=0, atol=1e-6)


def test_a_node_that_is_lonely_here_gets_its_place_from_the_others():
    """Client 0 has no link to public node 0; there it lies where the others have put it."""
    parties = small_parties(NAME, (30, 30, 30))
    edges = parties[0].edges
    cut = edges[:, (edges != 0).all(axis=0)]
    lonely = replace(parties[0], edges=cut)
    alone = train(make(NAME, exchange=False), [lonely, *parties[1:]], rounds=4)
    joined = train(make(NAME), [lonely, *parties[1:]], rounds=4)
    start = train(make(NAME), [lonely, *parties[1:]], rounds=0).clients["vectors/nodes"]
    torch.testing.assert_close(
        alone.clients["vectors/nodes"].blocks()[0][0], start.blocks()[0][0], rtol=1e-6, atol=0
    )
    assert joined.clients["vectors/nodes"].blocks()[0][0].norm() > 3 * start.blocks()[0][0].norm()


def test_exchange_brings_the_spaces_together():
    """Alone, public nodes don't find themselves at the others; together they soon do."""
    parties = small_parties(NAME, (40, 40, 40))
    precision = train(make(NAME), parties, rounds=12).server["alignment/precision"]
    assert precision.shape == (12, 3)
    assert precision[-1, 0] > 0.9
    assert precision[-1, 0] > precision[0, 0] + 0.2


def test_without_exchange_nothing_is_sent_and_each_trains_alone():
    parties = small_parties(NAME)
    apart = train(make(NAME, exchange=False), parties)
    assert set(apart.fed.ledger.table().filter(direction="up")["kind"]) == {"metric"}
    single = train(make(NAME, exchange=False), parties[:1])
    torch.testing.assert_close(
        apart.clients["vectors/nodes"].blocks()[0], values(single.clients["vectors/nodes"])
    )
    together = train(make(NAME), parties)
    assert not torch.equal(
        values(apart.clients["vectors/nodes"]), values(together.clients["vectors/nodes"])
    )


def test_contexts_start_anew_unless_they_are_kept():
    parties = small_parties(NAME)
    fresh, kept = (train(make(NAME, keep_contexts=k), parties, rounds=2) for k in (False, True))
    assert not torch.equal(
        values(fresh.clients["contexts/nodes"]), values(kept.clients["contexts/nodes"])
    )


def test_a_client_that_does_not_answer_keeps_its_averages():
    parties = small_parties(NAME)
    method = make(NAME)
    first = train(method, parties, rounds=1)
    original = first.fed.deliver

    def without_client_2(call, to, each):
        for batch in original(call, to, each):
            gone = [i for i, client in enumerate(batch.clients) if client == 2]
            yield without(batch, gone) if call.step == "train" else batch

    first.fed.deliver = without_client_2
    first.fed.begin(2)
    after = method.round(first.fed, nested(first.server), 2)
    old, new = (s["public"]["vectors"].blocks() for s in (nested(first.server), after))
    assert torch.equal(old[2], new[2])
    assert not torch.equal(old[0], new[0])


def test_a_reply_with_too_few_vectors_is_left_out():
    parties = small_parties(NAME)
    method = make(NAME)
    first = train(method, parties, rounds=1)
    original = first.fed.deliver

    def with_a_short_reply(call, to, each):
        for batch in original(call, to, each):
            if call.step == "train":
                leaf = batch.body["public/vectors"]
                short = (*leaf.sizes[:-1], leaf.sizes[-1] - 1)
                batch.body["public/vectors"] = type(leaf)(leaf.values[:-1], short)
            yield batch

    first.fed.deliver = with_a_short_reply
    first.fed.begin(2)
    after = method.round(first.fed, nested(first.server), 2)
    assert [(r.round, r.client) for r in first.fed.rejections] == [(2, 5)]
    assert torch.equal(
        after["public"]["vectors"].blocks()[5], first.server["public/vectors"].blocks()[5]
    )


def test_few_shared_nodes_and_none_are_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="atoll"):
        outcome = train(make(NAME), community_parties(shared=3))
    assert "30 of 30 ordered pairs of clients share fewer nodes" in caplog.text
    assert values(outcome.server["public/vectors"]).isfinite().all()
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="atoll"):
        outcome = train(make(NAME), community_parties())
    assert "no two clients share a node" in caplog.text
    assert outcome.server["alignment/precision"].tolist() == [[0.0] * 3] * 3


def test_the_judgement_at_the_end_is_two_scores_per_client():
    parties = small_parties(NAME, (40, 50, 45))
    method = make(NAME)
    outcome = train(method, parties, rounds=10)
    concluded = method.conclude(outcome.fed, nested(outcome.server)).body
    assert set(concluded) == {
        *("metric/mlp", "metric/svc"),
        *(f"metric/precision_{k}" for k in (1, 5, 10)),
    }
    assert concluded["metric/svc"].shape == (3,)
    assert concluded["metric/svc"].mean() > 0.6
    final = outcome.server["alignment/precision"][-1, 0]
    assert concluded["metric/precision_1"].tolist() == [final] * 3


def test_every_round_tells_how_well_the_spaces_agree():
    parties = small_parties(NAME)
    body = train(make(NAME, watch=True), parties, rounds=2).replies.body
    assert body["metric/svc"].shape == body["metric/precision_5"].shape == (6, 3)
    assert (body["metric/svc"] > 0).all()
    plain = train(make(NAME), parties, rounds=2)
    assert "metric/svc" not in plain.replies.body
    agreed = plain.server["alignment/precision"][-1, 1]
    assert (plain.replies.body["metric/precision_5"] == agreed).all()
    assert not any(
        "precision" in n for n in train(make(NAME, exchange=False), parties).replies.body
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [("dimensions", 0), ("walks", 0), ("length", 1), ("window", 0), ("negative", -1), ("lr", 0.0)],
)
def test_senseless_settings_are_refused(option, value):
    with pytest.raises(AtollError, match=f"method.{option} is {value}"):
        PpflDeepWalk(**{option: value})


def test_a_new_tree_each_round_has_no_contexts_to_keep():
    with pytest.raises(AtollError, match="keep_contexts needs negative sampling"):
        PpflDeepWalk(negative=0, keep_contexts=True)


def test_only_the_classifiers_asked_for_judge():
    outcome = train(make(NAME), small_parties(NAME), rounds=1)
    judged = make(NAME, classifiers=("svc",)).conclude(outcome.fed, nested(outcome.server)).body
    assert "metric/svc" in judged
    assert "metric/mlp" not in judged
    with pytest.raises(AtollError, match=r"method\.classifiers is empty"):
        PpflDeepWalk(classifiers=())


def test_one_fold_is_refused():
    with pytest.raises(AtollError, match=r"method\.folds is 1"):
        PpflDeepWalk(folds=1)


def test_nodes_without_a_neighbour_may_be_left_out_of_the_judgement(monkeypatch):
    monkeypatch.setattr(
        "atoll.methods.ppfl.embedding_alignment.cross_validated", lambda c, h, y, *rest: len(y)
    )
    path = path_graph(np.ones((5, 1)), [0, 1, 0, 1, 0])  # 0 - 1 - 2 - 3 - 4
    without_0 = replace(path, edges=path.edges[:, (path.edges != 0).all(0)])
    h = np.zeros((5, 2))
    assert PpflDeepWalk().judgement("svc", without_0, h, 0) == 5
    assert PpflDeepWalk(judged="linked").judgement("svc", without_0, h, 0) == 4
