"""Pseudo-labels, and that everything else is the inner method's."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from support import assert_same, assert_same_model, make, train

from atoll.errors import AtollError
from atoll.experiment.config import describe, resolve
from atoll.experiment.runner import run_experiment
from atoll.federation.calls import Reply, client_step
from atoll.federation.host import PrivacyViolation
from atoll.methods.base import methods
from atoll.methods.fed_avg import FedAvg
from atoll.methods.fed_pub import FedPub
from atoll.methods.graphfl import GraphFL
from atoll.methods.self_training import SelfTraining, most_confident
from atoll.models.sgc import SGC
from atoll.tree import nested, under
from small_federations import community_parties


def test_the_most_confident_nodes_of_each_class():
    chances = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7], [0.95, 0.05]])
    labelled = np.array([False, False, False, False, True])
    nodes, labels = most_confident(chances, labelled, 2)
    assert nodes.tolist() == [0, 2, 3]
    assert labels.tolist() == [0, 0, 1]
    assert most_confident(chances, labelled, 0)[0].tolist() == []


def pseudo(outcome):
    blocks = (outcome.clients[f"pseudo/{part}"].blocks() for part in ("nodes", "labels"))
    return list(zip(*blocks, strict=True))


def test_pseudo_labels_are_the_local_models_surest_predictions():
    """The same as training alone and looking at the softmax."""
    parties = community_parties()
    outcome = train(make("self-training", model=SGC(), epochs=30, pseudo=2), parties, rounds=0)
    alone = train(make("local", model=SGC(), epochs=30), parties, rounds=1)
    cohort = alone.fed.host.cohort
    chances = SGC().apply(under(alone.clients, "model"), cohort).softmax(1)
    for k, (nodes, labels) in enumerate(pseudo(outcome)):
        own = chances[cohort.batch == k].numpy()
        expected = most_confident(own, parties[k].train | parties[k].val, 2)
        assert nodes.tolist() == expected[0].tolist()
        assert labels.tolist() == expected[1].tolist()
        assert not (parties[k].train | parties[k].val)[nodes].any()


def test_the_inner_method_trains_on_pseudo_labels_and_is_scored_on_true_ones():
    parties = community_parties()
    method = make("self-training", model=SGC(), epochs=30, pseudo=3)
    outcome = train(method, parties)
    augmented = []
    for graph, (nodes, labels) in zip(parties, pseudo(outcome), strict=True):
        y, train_nodes = graph.y.copy(), graph.train.copy()
        y[nodes], train_nodes[nodes] = labels, True
        augmented.append(graph.relabelled(y=y, train=train_nodes, val=graph.val, name=graph.name))
    expected = train(make("fed-avg", model=SGC()), augmented)
    assert_same_model(outcome.server, expected.server)
    nodes = outcome.replies["metric"]["nodes"]
    assert nodes[:, 0].tolist() == [float(g.train.sum()) for g in parties]
    wrong = [
        graph.y[n] != labels.numpy()
        for graph, (n, labels) in zip(parties, pseudo(outcome), strict=True)
    ]
    assert np.concatenate(wrong).any(), "some pseudo-labels are wrong, or the test shows nothing"


def test_without_pseudo_labels_it_is_the_inner_method():
    parties = community_parties()
    for name in ("fed-avg", "graphfl", "fed-pub"):
        method = make("self-training", inner=make(name, epochs=2), epochs=2, pseudo=0)
        expected = train(make(name, epochs=2), parties)
        outcome = train(method, parties)
        for leaf in ("pseudo/nodes", "pseudo/labels"):
            assert outcome.clients.pop(leaf).values.numel() == 0
        assert_same(outcome, expected, 1e-12)


@pytest.mark.parametrize("name", ["graphfl", "graphfl-domain", "fed-pub", "fed-per"])
def test_any_method_may_be_inside(name):
    parties = community_parties()
    method = make("self-training", inner=make(name), epochs=5, pseudo=1)
    assert_same(train(method, parties), train(method, parties, chunk=2), 1e-9)


def test_precision_is_measured_where_the_data_knows():
    parties = community_parties()
    method = make("self-training", model=SGC(), epochs=30, pseudo=3)
    outcome = train(method, parties, rounds=1)
    found = method.conclude(outcome.fed, nested(outcome.server))["metric"]
    for k, (nodes, labels) in enumerate(pseudo(outcome)):
        right = (parties[k].y[nodes] == labels.numpy()).mean()
        assert found["pseudo_precision"][k].item() == pytest.approx(right)
        assert found["pseudo_nodes"][k].item() == len(nodes)


def test_all_labels_may_teach_the_local_model():
    parties = community_parties()
    support, every = (
        train(
            make("self-training", model=SGC(), epochs=20, pseudo=1, labels=labels),
            parties,
            rounds=0,
        )
        for labels in ("train", "all")
    )
    assert any(
        a.tolist() != b.tolist()
        for (a, _), (b, _) in zip(pseudo(support), pseudo(every), strict=True)
    )


def test_model_and_optimizer_are_those_of_the_experiment():
    table = {
        "method": {"name": "self-training", "inner": {"name": "graphfl", "beta": 0.3}, "pseudo": 5},
        "model": {"name": "sgc"},
        "optimizer": {"name": "sgd", "lr": 0.7},
    }
    method = resolve(table).method
    assert isinstance(method.wrapped, GraphFL)
    assert method.wrapped.beta == 0.3
    assert method.wrapped.model == SGC()
    assert method.wrapped.optimizer.lr == 0.7
    assert describe(resolve(table))["method"]["inner"]["beta"] == 0.3
    assert resolve(describe(resolve(table))) == resolve(table)


def test_a_name_is_enough():
    method = resolve({"method": {"name": "self-training", "inner": "fed-pub"}}).method
    assert isinstance(method.inner, FedPub)
    assert method.private == FedPub.private | {"pseudo"}


def test_needs_are_the_inner_methods():
    inside = SelfTraining(inner=methods["centralized"]())
    assert inside.pooled
    assert not SelfTraining().pooled
    assert SelfTraining(inner=methods["fed-gala"]()).needs_anchors
    assert not SelfTraining().needs_anchors


@dataclass(frozen=True, kw_only=True)
class TwoRounds(FedAvg):
    """FedAvg that ends by itself after its second round."""

    def start(self, info, seed):
        return super().start(info, seed) | {"rounds": {"done": torch.tensor(0)}}

    def round(self, fed, server, r):
        return super().round(fed, server, r) | {"rounds": {"done": server["rounds"]["done"] + 1}}

    def finished(self, server):
        return int(server["rounds"]["done"]) == 2


def test_a_run_ends_when_the_inner_method_has_finished(tmp_path):
    table = {
        "data": {"name": "patients"},
        "partition": {"name": "random", "clients": 3},
        "model": {"name": "sgc"},
        "run": {"rounds": 5},
    }
    method = SelfTraining(inner=TwoRounds(), model=SGC(), epochs=2)
    result = run_experiment(replace(resolve(table), method=method), tmp_path / "run")
    assert result.history["round"].unique().to_list() == [1, 2]


def test_what_the_inner_method_refuses_is_refused_at_once():
    with pytest.raises(AtollError, match=r"fed-mlp trains an MLP .*set model\.name=mlp"):
        SelfTraining(inner=methods["fed-mlp"](), model=SGC())


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ("fed-avgg", "fed-avg"),
        ({"beta": 1.0}, "does not say which method"),
        ({"name": "graphfl", "gamma": 1.0}, "method.inner.gamma"),
        ("self-training", "name another method"),
        (3, "method.inner is 3"),
    ],
)
def test_bad_inner_methods_are_refused(inner, message):
    with pytest.raises(AtollError, match=message):
        resolve({"method": {"name": "self-training", "inner": inner}})


def test_a_negative_number_of_pseudo_labels():
    with pytest.raises(AtollError, match=r"method\.pseudo is -1"):
        SelfTraining(pseudo=-1)


def test_pseudo_labels_can_not_be_sent(monkeypatch):
    @client_step
    def leak(self, client, model):
        return Reply(pseudo={"labels": torch.zeros(client.k)})

    monkeypatch.setattr(methods["fed-avg"], "train", leak)
    with pytest.raises(PrivacyViolation, match="pseudo/labels"):
        train(make("self-training", epochs=1), community_parties())
