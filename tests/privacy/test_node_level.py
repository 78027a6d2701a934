"""Gradients of single nodes: clipped, added up, noised by what one node can change."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import run_experiment
from atoll.methods.base import methods
from atoll.methods.fed_avg import FedAvg
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.privacy.accounting import epsilon_of
from atoll.privacy.door import guarded
from atoll.privacy.node_level import _clipped_sum, with_private_nodes
from atoll.privacy.noise import KeyedCoins
from atoll.privacy.protections import Privacy
from atoll.privacy.spending import Spending
from atoll.rng import CohortRng
from atoll.tasks.nodes import NodeClassification
from small_federations import community_parties

MODELS = {"mlp": MLP(hidden=4, dropout=0.0), "gcn": GCN(hidden=4, dropout=0.0)}


def parties():
    return community_parties((12, 9))


def gradient(graphs, model="mlp", noise=1e-12, clip=1.0, clients=None, draws=1, spoilt=None):
    """Each client's private gradient of the first model, and its training nodes."""
    privacy = Privacy(noise=noise, clip=clip, unit="node")
    spending = Spending(privacy)
    chosen = with_private_nodes(FedAvg(model=MODELS[model]), privacy, spending, KeyedCoins())
    cohort = Cohort(graphs, clients, dtype=torch.float64)
    params = chosen.initial_model(cohort, 0)
    stacked = {n: p.expand(cohort.k, *p.shape).clone().requires_grad_() for n, p in params.items()}
    if spoilt is not None:
        next(iter(stacked.values())).data[:, 0] = spoilt
    rng = CohortRng(0, cohort.clients, 1, "train#0")
    for _ in range(draws):
        loss = chosen.task.loss(chosen.model, stacked, cohort, rng)
        grads = torch.autograd.grad(loss.sum(), list(stacked.values()))
    flat = torch.cat([g.flatten(1) for g in grads], dim=1)
    return flat, loss, cohort, spending


def plain(graphs, model):
    method = FedAvg(model=MODELS[model])
    cohort = Cohort(graphs, dtype=torch.float64)
    params = method.initial_model(cohort, 0)
    stacked = {n: p.expand(cohort.k, *p.shape) for n, p in params.items()}
    grads = method.task.gradient(method.model, stacked, cohort)
    loss = method.task.loss(method.model, stacked, cohort)
    return torch.cat([g.flatten(1) for g in grads.values()], dim=1), loss


@pytest.mark.parametrize("model", MODELS)
def test_without_clipping_it_is_the_gradient_of_the_loss(model):
    found, loss, *_ = gradient(parties(), model, clip=1e3)
    expected, value = plain(parties(), model)
    assert torch.allclose(found, expected, atol=1e-7)
    assert torch.allclose(loss, value)


def test_a_clients_sum_changes_by_no_more_than_the_clip_with_one_node():
    clip = 0.01
    graph = parties()[0]
    whole = gradient([graph], clip=clip)[0] * graph.train.sum()
    for node in np.flatnonzero(graph.train):
        train = graph.train.copy()
        train[node] = False
        less = replace(graph, train=train)
        rest = gradient([less], clip=clip)[0] * train.sum()
        assert float((whole - rest).norm()) <= clip + 1e-9


@pytest.mark.parametrize("model", MODELS)
def test_noise_is_scaled_by_what_one_node_can_change(model):
    graph = parties()[0]
    n = int(graph.train.sum())
    noised, _, cohort, _ = gradient([graph], model, noise=1e6, clip=0.5)
    expected = 1e6 * 0.5 * (1 if model == "mlp" else 2 * n - 1) / n
    assert float(noised.std()) == pytest.approx(expected, rel=0.15)
    assert cohort.k == 1


def test_steps_of_one_round_draw_different_noise_and_each_is_counted():
    first, _, _, once = gradient(parties(), noise=1.0)
    second, _, _, twice = gradient(parties(), noise=1.0, draws=2)
    assert not torch.allclose(first, second)
    assert (once.counts[0], twice.counts[0]) == (1, 2)


def test_clients_are_noised_alike_together_and_alone():
    together, *_ = gradient(parties(), noise=1.0)
    alone, *_ = gradient(parties()[1:], noise=1.0, clients=[1])
    assert torch.allclose(together[1:], alone, atol=1e-9)


def experiment(**more):
    return resolve(
        {
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 4},
            "model": {"name": "mlp", "hidden": 8},
            "method": {"name": "fed-avg", "epochs": 2},
            "run": {"rounds": 3},
            "privacy": {"noise": 5.0, "clip": 1.0, "unit": "node"},
        }
        | more
    )


def test_every_gradient_step_is_on_record(tmp_path):
    result = run_experiment(experiment(), tmp_path / "run")
    assert result.figures["epsilon"] == epsilon_of(5.0, 6, 1e-5)


def test_the_budget_ends_training(tmp_path):
    budget = epsilon_of(5.0, 5, 1e-5)
    privacy = {"noise": 5.0, "clip": 1.0, "unit": "node", "epsilon": budget}
    result = run_experiment(experiment(privacy=privacy), tmp_path / "run")
    assert result.figures["rounds"] == 2
    assert result.figures["epsilon"] <= budget


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": {"name": "fed-pub"}}, "fed-pub uses its data in other ways"),
        ({"task": {"name": "links"}}, "a loss that is a sum over nodes"),
        ({"task": {"class_weight": "balanced"}}, r"task\.class_weight=none"),
    ],
)
def test_what_it_does_not_cover_is_refused(changes, said, tmp_path):
    with pytest.raises(AtollError, match=said):
        run_experiment(experiment(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, 1e7])
@pytest.mark.parametrize("model", MODELS)
def test_weights_that_make_numbers_overflow_train_nothing(model, spoilt):
    """A server sends them to tell by a NaN, or by the others' gradients, that a node is there."""
    found = gradient(parties(), model, spoilt=spoilt)[0]
    assert found.abs().max() < 1e-9
    assert gradient(parties(), model)[0].norm(dim=1).min() > 1e-3


def test_a_gradient_that_is_no_number_leaves_the_sum_finite():
    w = torch.zeros(1, 2, requires_grad=True)
    losses = (torch.tensor([[3.0, 4.0], [1.0, np.inf]]) * w).sum(1)
    sums = _clipped_sum(losses, {"w": w}, torch.zeros(2, dtype=torch.int64), clip=2.5)
    assert float(sums["w"].norm()) <= 2 * 2.5


def test_a_method_that_it_does_not_cover_never_gets_behind_a_door():
    """At a site nobody else has looked: a coordinator asks for what it likes."""
    privacy = Privacy(noise=1.0, clip=1.0, unit="node", epsilon=8.0)
    with pytest.raises(AtollError, match="uses its data in other ways"):
        guarded(methods["scaffold"](), privacy)
    with pytest.raises(AtollError, match="mini-batches are not"):
        guarded(FedAvg(task=NodeClassification(batch=4)), privacy)
    assert guarded(FedAvg(), privacy)
