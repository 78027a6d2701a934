"""FedProto against its objective in plain PyTorch; classes that a client lacks."""

from dataclasses import replace

import pytest
import torch
from support import assert_same, assert_same_model, make, train

from atoll.errors import AtollError
from atoll.tasks.links import LinkPrediction
from atoll.tree import under
from plain_clients import PARTIES, PlainOptimizer, clients, descend, federation, same
from small_federations import community_parties

CLASSES = 3


def plain_proto(w, who, optimizer, pull, distance, weights):
    parties = clients()
    v = [w for _ in parties]
    optimizers = [PlainOptimizer(optimizer) for _ in parties]
    C = {}
    for S in who:
        sums = {j: [] for j in range(CLASSES)}
        for i in S:
            client = parties[i]

            known = dict(C)

            def objective(w, client=client, known=known):
                z, y = client.z(w)[client.train], client.y[client.train]
                away = torch.zeros((), dtype=torch.float64)
                for j, goal in known.items():
                    own = z[y == j]
                    if not len(own):
                        continue
                    if distance == "nodes":
                        away = away + (own - goal).square().mean(1).sum() / len(y)
                    else:
                        away = away + (own.mean(0) - goal).square().sum()
                return client.loss(w) + pull * away

            v[i], _ = descend(client, optimizers[i], v[i], 2, objective=objective)
            z, y = client.z(v[i])[client.train], client.y[client.train]
            for j in range(CLASSES):
                if (y == j).any():
                    count = float((y == j).sum()) if weights == "labelled" else 1.0
                    sums[j].append((count, z[y == j].mean(0)))
        for j, found in sums.items():
            if found:
                C[j] = sum(n * c for n, c in found) / sum(n for n, _ in found)
    return v, C


@pytest.mark.parametrize("distance", ["nodes", "prototypes"])
@pytest.mark.parametrize("weights", ["labelled", "equal"])
def test_it_is_the_papers_objective_also_where_some_sit_out(distance, weights):
    options = {"pull": 0.5, "distance": distance, "weights": weights, "fraction": 0.5}
    outcome, start, who = federation("fed-proto", 4, **options)
    v, C = plain_proto(start, who, "sgd", 0.5, distance, weights)
    own = under(outcome.clients, "model")
    for i, expected in enumerate(v):
        same({n: p[i] for n, p in own.items()}, expected)
    for j, expected in C.items():
        same({"mean": outcome.server["prototype/mean"][j]}, {"mean": expected})


def without_class(graph, label):
    return replace(graph, train=graph.train & (graph.y != label))


def test_a_client_without_a_class_does_not_count_there():
    """Two clients; only the second has class 2, and its prototype is the global one."""
    parties = community_parties((18, 24))
    parties[0] = without_class(parties[0], 2)
    both = train(make("fed-proto"), parties, rounds=1)
    alone = train(make("fed-proto"), parties[1:], rounds=1, numbers=[1])
    for c, equal in ((2, True), (0, False)):
        found, own = (o.server["prototype/mean"][c] for o in (both, alone))
        assert torch.allclose(found, own, rtol=0, atol=1e-12) is equal
    later = train(make("fed-proto", pull=1.0), parties, rounds=3)
    assert later.replies.body["metric/loss"].isfinite().all()


def test_a_class_that_nobody_has_pulls_nobody():
    parties = [without_class(g, 2) for g in community_parties()]
    outcome = train(make("fed-proto"), parties)
    assert outcome.server["prototype/known"].tolist() == [1.0, 1.0, 0.0]
    assert not outcome.server["prototype/mean"][2].any()


def test_a_prototype_that_nobody_renews_is_kept():
    parties = community_parties((18, 24, 20, 22))
    parties[1:] = [without_class(g, 2) for g in parties[1:]]
    history = [train(make("fed-proto", fraction=0.25), parties, rounds=r) for r in range(9)]
    known = [float(o.server["prototype/known"][2]) for o in history]
    assert known[-1] == 1.0
    taking_part = history[-1].fed.ledger.table().filter(step="train", direction="up")
    for r in range(1, 9):
        if known[r - 1] and 0 not in set(taking_part.filter(round=r)["client"]):
            before, after = (history[i].server["prototype/mean"][2] for i in (r - 1, r))
            assert torch.equal(before, after)
            break
    else:
        pytest.fail("the client with the class took part in every round")


def test_without_a_pull_it_is_local_training():
    parties = community_parties()
    alone = train(make("local", epochs=2), parties)
    assert_same_model(alone.clients, train(make("fed-proto", epochs=2, pull=0.0), parties).clients)


def test_few_nodes_stay_at_home():
    """No party has 50 training nodes of a class: nothing but zeros is sent, and a run says so."""
    method = make("fed-proto", smallest=50)
    outcome = train(method, PARTIES)
    assert not outcome.server["prototype/mean"].any()
    known = {"known": outcome.server["prototype/known"]}
    assert "method.smallest" in method.remarks({"prototype": known}, None)[0]
    assert_same(outcome, train(method, PARTIES, wire=True), 1e-9)


def test_models_stay_and_links_have_no_classes():
    up = train(make("fed-proto"), PARTIES).fed.ledger.table().filter(step="train", direction="up")
    assert set(up["name"]) == {"prototype/sum", "prototype/count"}
    with pytest.raises(AtollError, match="links"):
        make("fed-proto", task=LinkPrediction())
