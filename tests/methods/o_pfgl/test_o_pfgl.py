"""O-pFGL: its parts against the paper's equations, written out in numpy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import engine, make, train

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import Graph, dense
from atoll.methods.base import Info
from atoll.methods.client import Client
from atoll.methods.o_pfgl.statistics import class_sums, moments
from atoll.methods.o_pfgl.synthetic import (
    Target,
    Weights,
    adjacency_of,
    first_edge_net,
    fitted,
    objective,
)
from atoll.methods.o_pfgl.tuning import class_trust, divergence, label_shares, trained
from atoll.models.sgc import SGC
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tree import under
from small_federations import community_parties, path_graph

PAPER = Weights(10.0, 0.1, 0.01)


def two_hops(graph: Graph) -> np.ndarray:
    """``[X, PX]``."""
    loops = graph.adjacency.toarray() + np.eye(graph.nodes)
    x = dense(graph.x).astype(np.float64)
    return np.concatenate([x, loops / np.sqrt(np.outer(loops.sum(1), loops.sum(1))) @ x], axis=1)


def test_pooled_sums_give_the_moments_of_everybodys_nodes():
    parties = community_parties((40, 50, 45))
    sums = class_sums(Cohort(parties, dtype=torch.float64), 1, 1, squares=True)
    total = {name: value.sum(0) for name, value in sums.items()}
    mean, deviation = moments(total["count"], total["sum"], total["square"])
    rows = np.concatenate([two_hops(g)[g.train] for g in parties])
    y = np.concatenate([g.y[g.train] for g in parties])
    for c in range(3):
        assert total["count"][c] == (y == c).sum()
        np.testing.assert_allclose(mean[c], rows[y == c].mean(0), rtol=0, atol=1e-10)
        np.testing.assert_allclose(deviation[c], rows[y == c].std(0, ddof=1), rtol=0, atol=1e-7)


def test_nothing_is_said_of_a_class_with_too_few_nodes():
    """Two nodes of class 0 and one of class 1, whose sum would be its features."""
    graph = path_graph(np.array([[1.0], [2.0], [5.0]]), [0, 0, 1])
    sums = class_sums(Cohort([graph], dtype=torch.float64), 1, 2, squares=False)
    assert sums["count"].tolist() == [[2.0, 0.0]]
    assert sums["sum"][0, 0, 0] == 3.0
    assert sums["sum"][0, 1].tolist() == [0.0, 0.0]
    assert set(sums) == {"count", "sum"}


def test_the_objective_is_the_papers():
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(3, 4)), rng.random((3, 3))
    a = (a + a.T) / 2 * (1 - np.eye(3))
    a[0, 1] = a[1, 0] = 0.005  # below the threshold: no edge
    mean, share = rng.normal(size=(3, 8)), np.array([0.2, 0.3, 0.5])
    kept = np.where(a < 0.01, 0, a)
    loops = kept + np.eye(3)
    p = loops / np.sqrt(np.outer(loops.sum(1), loops.sum(1)))
    both = np.concatenate([x, p @ x], axis=1)
    alignment = sum(share[c] * ((mean[c] - both[c]) ** 2).mean() for c in range(3))
    smoothness = sum(
        kept[i, j] * np.exp(-0.5 * (x[i] - x[j]) ** 2).mean() for i in range(3) for j in range(3)
    )
    target = Target(torch.from_numpy(mean), None, torch.from_numpy(share))
    found = objective(torch.from_numpy(x), torch.from_numpy(a), target, 1, PAPER)
    expected = 10 * alignment + 0.1 * smoothness / kept.sum()
    assert float(found) == pytest.approx(expected, abs=1e-10)


def test_with_several_nodes_per_class_deviations_count():
    x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    target = Target(
        torch.tensor([[1.0]], dtype=torch.float64),
        torch.tensor([[0.0]], dtype=torch.float64),
        torch.ones(1, dtype=torch.float64),
    )
    found = objective(x, torch.zeros(2, 2, dtype=torch.float64), target, 2, PAPER)
    assert float(found) == pytest.approx(10 * 2.0)  # the mean fits; the deviation is sqrt(2)


def test_an_edge_is_weighed_by_both_of_its_ends():
    rng = np.random.default_rng(1)
    net = first_edge_net(5, rng)
    x = rng.normal(size=(3, 5))
    p = {name: value.numpy() for name, value in net.items()}

    def normalised(h, scale, shift):
        return (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5) * scale + shift

    pairs = np.array([np.concatenate([x[i], x[j]]) for i in range(3) for j in range(3)])
    h = pairs @ np.concatenate([p["left"], p["right"]]) + p["bias1"]
    h = np.maximum(normalised(h, p["scale1"], p["shift1"]), 0)
    h = np.maximum(normalised(h @ p["weight2"] + p["bias2"], p["scale2"], p["shift2"]), 0)
    scores = (h @ p["weight3"] + p["bias3"]).reshape(3, 3)
    expected = 1 / (1 + np.exp(-(scores + scores.T) / 2)) * (1 - np.eye(3))
    np.testing.assert_allclose(adjacency_of(torch.from_numpy(x), net), expected, atol=1e-10)


def test_fitting_brings_the_synthetic_nodes_to_the_class_means():
    mean = torch.tensor([[1.0, 0.0, 0.6, 0.3], [0.0, 1.0, 0.3, 0.6]], dtype=torch.float64)
    target = Target(mean, None, torch.tensor([0.5, 0.5], dtype=torch.float64))
    rng = np.random.default_rng(0)
    made = fitted(target, 1, 2, 600, 0.05, 0.001, Weights(10.0, 0.0, 0.01), rng)
    loss = objective(made.x, made.adjacency, target, 1, Weights(1.0, 0.0, 0.01))
    assert float(loss) < 0.02
    torch.testing.assert_close(made.adjacency, made.adjacency.T)


def test_classes_that_a_client_knows_well_are_trusted_less_to_the_teacher():
    """A path 0 0 1 0 of training nodes: shares of alike neighbours 1, 1/2, 0 and 0."""
    graph = path_graph(np.ones((4, 1)), [0, 0, 1, 0])
    found = class_trust(Cohort([graph], dtype=torch.float64))
    expected = [[1 / (1 + np.log(2.5)), 1.0]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_labels_spread_and_where_none_arrives_all_are_as_likely():
    """0 - 1 and 2 alone; only 0 trains."""
    graph = path_graph(np.ones((3, 1)), [0, 1, 1])
    first = np.array([True, False, False])
    graph = replace(graph, edges=np.array([[0, 1], [1, 0]]), train=first)
    found = label_shares(Cohort([graph], dtype=torch.float64), 2, 0.9)
    once = np.array([[0.1, 0], [0.9, 0]])
    expected = [0.9 * once[1] + [0.1, 0], 0.9 * once[0], [0.5, 0.5]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_divergence_is_from_the_teacher_and_weighed_by_node():
    parties = community_parties((5, 6))
    cohort = Cohort(parties, dtype=torch.float64)
    rng = np.random.default_rng(2)
    logits, teacher = rng.normal(size=(2, 11, 3))
    gamma = rng.random(11)
    p, q = (np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (teacher, logits))
    each = gamma * (p * np.log(p / q)).sum(1)
    found = divergence(*(torch.from_numpy(part) for part in (logits, teacher, gamma)), cohort)
    np.testing.assert_allclose(found, [each[:5].mean(), each[5:].mean()], atol=1e-10)


def test_a_node_is_held_to_the_teacher_within_bounds():
    graph = path_graph(np.ones((4, 1)), [0, 0, 1, 0])
    cohort = Cohort([graph], dtype=torch.float64)
    free = make("o-pfgl", gamma=1.0, gamma_max=9.0).strength(cohort)
    held = make("o-pfgl", gamma=1.0, gamma_min=0.2, gamma_max=0.3).strength(cohort)
    torch.testing.assert_close(held, free.clamp(0.2, 0.3))
    shares, trust = label_shares(cohort, 2, 0.9), class_trust(cohort)
    torch.testing.assert_close(free, (shares * trust).sum(1))


def test_each_client_stops_by_its_own_validation_nodes():
    """Every step adds 1 to the score of class 0, which is right for one client only."""
    parties = [path_graph(np.zeros((3, 1)), [c, c, c]) for c in (0, 1)]
    method = make("o-pfgl", model=SGC(hops=1))
    cohort = Cohort(parties, dtype=torch.float64)
    client = Client(method, cohort, CohortRng(0, (0, 1), 1, "learn#0"), {})
    params = {
        "weight": torch.zeros(2, 1, 2, dtype=torch.float64),
        "bias": torch.tensor([[-2.5, 0.0], [-1.5, 0.0]], dtype=torch.float64),
    }

    def loss(w):
        return -w["bias"][:, 0] + 0 * w["weight"].sum((1, 2))

    # Right from the third step on; right at the first one, and not much longer.
    found = trained(client, params, loss, SGD(lr=1.0), 50, 1, 3)
    assert found["bias"][:, 0].tolist() == [0.5, -0.5]
    # With less patience the first client gives up before.
    found = trained(client, params, loss, SGD(lr=1.0), 50, 1, 1)
    assert found["bias"][:, 0].tolist() == [-1.5, -0.5]


def test_one_round_and_it_is_finished():
    parties = community_parties()
    method = make("o-pfgl")
    fed, [host] = engine(method, parties, None, 0, 0, False)
    server = method.start(Info(6, 24, 3, torch.float64), 0)
    assert not method.finished(server)
    fed.begin(1)
    server = method.round(fed, server, 1)
    assert method.finished(server)
    assert server["synthetic"]["y"].tolist() == [0, 1, 2]
    sent = set(fed.ledger.table().filter(direction="up")["name"])
    assert sent == {"statistics/count", "statistics/sum"}
    before = {name: leaf.clone() for name, leaf in under(host.state, "model").items()}
    fed.begin(2)
    assert method.round(fed, server, 2) is server
    for name, leaf in under(host.state, "model").items():
        assert torch.equal(leaf, before[name])


def test_without_tuning_all_clients_with_the_same_judgement_have_one_model():
    twins = community_parties((40,)) * 2
    method = make("o-pfgl", model=SGC(), personal=False)
    model = under(train(method, twins, rounds=1).clients, "model")
    for leaf in model.values():
        torch.testing.assert_close(leaf[0], leaf[1], rtol=0, atol=1e-12)


def test_a_class_that_nobody_may_send_is_said():
    server = {"statistics": {"count": torch.tensor([4.0, 0.0])}, "done": {"rounds": torch.ones(1)}}
    [remark] = make("o-pfgl").remarks(server, None)
    assert remark.startswith("class 1 is not in the synthetic graph")


def test_a_floor_above_everybody_is_refused():
    with pytest.raises(AtollError, match=r"no client has 99 training nodes of any class; lower"):
        train(make("o-pfgl", floor=99), community_parties(), rounds=1)


def test_bounds_that_cross_are_refused():
    with pytest.raises(AtollError, match=r"gamma_min \(0\.3\) is above"):
        make("o-pfgl", gamma_min=0.3)
