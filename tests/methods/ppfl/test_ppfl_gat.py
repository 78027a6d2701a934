import numpy as np
import pytest
import torch
from support import assert_same_model, make, small_parties, train, values
from torch.nn.functional import cosine_similarity

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.leaves import Ragged
from atoll.methods.base import Info
from atoll.methods.client import Client
from atoll.methods.ppfl import PpflGat
from atoll.models.gat import GAT
from atoll.partition.anchors import matched
from atoll.rng import CohortRng
from atoll.tree import nested, replicated, under
from small_federations import community_parties

NAME = "ppfl-gat"
SMALL_GAT = GAT(hidden=3, heads=2)


def gat(**options):
    return make(NAME, **({"model": SMALL_GAT} | options))


def cohort_of(parties):
    return Cohort(matched(parties)[0], dtype=torch.float64)


def client_of(method, parties, outcome):
    cohort = cohort_of(parties)
    rng = CohortRng(0, cohort.clients, 2, "any")
    return Client(method, cohort, rng, nested(outcome.clients))


def test_the_first_layers_output_of_public_nodes_is_what_travels():
    parties = small_parties(NAME)
    outcome = train(gat(), parties, rounds=1)
    cohort = cohort_of(parties)
    hidden = SMALL_GAT.intermediate(under(outcome.clients, "model"), cohort)
    up = outcome.fed.ledger.table().filter(direction="up", step="train")
    assert set(up["name"]) == {"public/vectors"}
    # 8 public nodes, 2 heads of 3, 8 bytes per number.
    assert set(up["bytes"]) == {8 * 6 * 8}
    assert hidden.shape == (cohort.batch.shape[0], 6)


def test_models_are_private_and_start_apart():
    assert "model" in PpflGat.private
    start = train(gat(), small_parties(NAME), rounds=0)
    weight = under(start.clients, "model")["gat1.weight"]
    assert not torch.equal(weight[0], weight[1])
    same = train(gat(common_start=True), small_parties(NAME), rounds=0)
    weight = under(same.clients, "model")["gat1.weight"]
    assert torch.equal(weight[0], weight[1])


def test_the_embedding_loss_is_equation_8():
    parties = small_parties(NAME)
    cohort = cohort_of(parties)
    method = gat(beta=0.75)
    outcome = train(method, parties, rounds=1)
    params_K = under(outcome.clients, "model")
    client = client_of(method, parties, outcome)
    found = method.embedding_loss(client, nested(outcome.server)["public"])(params_K)
    hidden = torch.split(SMALL_GAT.intermediate(params_K, cohort), list(cohort.sizes))
    for k, sent in enumerate(outcome.server["public/vectors"].blocks()):
        # The shared nodes are the first 8 of each party.
        by_hand = np.mean([1 - cosine_similarity(hidden[k][u], sent[u], dim=0) for u in range(8)])
        assert found[k].item() == pytest.approx(0.75 * by_hand)


def test_a_client_that_nothing_reached_pays_nothing():
    parties = small_parties(NAME)
    outcome = train(gat(), parties, rounds=1)
    params_K = under(outcome.clients, "model")
    one = Ragged(torch.ones(8, 6, dtype=torch.float64), (0, 0, 8, 0, 0, 0))
    client = client_of(gat(), parties, outcome)
    loss_K = gat().embedding_loss(client, {"vectors": one})(params_K)
    assert (loss_K != 0).tolist() == [False, False, True, False, False, False]


def test_a_large_beta_draws_the_embeddings_together():
    parties = small_parties(NAME)

    def precision(beta):
        outcome = train(gat(beta=beta, epochs=10), parties, rounds=6)
        return float(outcome.server["alignment/precision"][-1, 0])

    assert precision(20.0) > precision(0.0) + 0.1


def test_without_exchange_or_without_weight_it_is_local_training():
    parties = small_parties(NAME)
    apart = train(gat(exchange=False, epochs=2), parties)
    weightless = train(gat(beta=0.0, epochs=2), parties)
    assert_same_model(apart.clients, weightless.clients)
    assert set(apart.fed.ledger.table().filter(direction="up")["kind"]) == {"metric"}


def test_what_is_judged():
    parties = small_parties(NAME, (40, 40, 40))
    outcome = train(gat(), parties, rounds=2)
    client = client_of(gat(), parties, outcome)
    inner, outer = (gat(represents=what).embeddings(client) for what in ("intermediate", "output"))
    assert (inner.shape[1], outer.shape[1]) == (6, 3)
    concluded = gat(epochs=20).conclude(outcome.fed, nested(outcome.server))
    assert set(concluded.body) >= {"metric/mlp", "metric/svc"}


def test_held_out_judgement_never_looks_at_training_labels(monkeypatch):
    seen = []

    def spy(classifier, h, y, folds, seed):
        seen.append(len(y))
        return 0.5

    monkeypatch.setattr("atoll.methods.ppfl.embedding_alignment.cross_validated", spy)
    parties = small_parties(NAME)
    method = gat()
    outcome = train(method, parties, rounds=1)
    method.conclude(outcome.fed, nested(outcome.server))
    held_out = [int((g.val | g.test).sum()) for g in parties]
    assert seen == held_out * 2
    assert held_out != [g.nodes for g in parties]


def test_a_fold_fits_to_training_nodes_and_scores_the_others(monkeypatch):
    seen = []

    def spy(classifier, h, y, train, held_out, seed):
        seen.append((int(train.sum()), int(held_out.sum()), bool((train & held_out).any())))
        return 0.5

    monkeypatch.setattr("atoll.methods.ppfl.embedding_alignment.fold_score", spy)
    parties = small_parties(NAME)
    method = gat(judged="fold")
    outcome = train(method, parties, rounds=1)
    method.conclude(outcome.fed, nested(outcome.server))
    expected = [(int(g.train.sum()), int((g.val | g.test).sum()), False) for g in parties]
    assert seen == expected * 2


def test_the_width_is_the_models():
    info = Info(2, 24, 3, torch.float64)
    assert gat().width(info) == 6
    assert make(NAME).width(info) == 8


def test_gat_splits_into_its_layers():
    """The intermediate layer is the one apply goes through (no dropout in evaluation)."""
    cohort = Cohort(community_parties((20, 15)), dtype=torch.float64)
    params = SMALL_GAT.init(24, 3, np.random.default_rng(0))
    params_K = replicated(params, 2)
    hidden = SMALL_GAT.intermediate(params_K, cohort)
    assert hidden.shape == (35, 6)
    params_K["gat2.weight"] = torch.zeros_like(params_K["gat2.weight"])
    assert (hidden > -1).all()
    assert values(SMALL_GAT.apply(params_K, cohort)).eq(0).all()


def test_a_negative_weight_is_refused():
    with pytest.raises(AtollError, match=r"method\.beta is -1"):
        PpflGat(beta=-1.0)
