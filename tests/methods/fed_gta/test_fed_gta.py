"""FedGTA against its equations, written out in numpy."""

import numpy as np
import pytest
import torch
from support import assert_same_model, make, train

from atoll.cohort import Cohort
from atoll.graph import make_graph
from atoll.methods.fed_gta.method import shares
from atoll.methods.fed_gta.spreading import confidence, distributions, moments_of, spread_labels
from atoll.tree import under
from small_federations import community_parties


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def told(graph, soft, order, temperature=20.0, steps=5):
    """The paper's moments (raw, then central) and confidence of one client."""
    n, classes = soft.shape
    a = graph.adjacency.toarray()
    degree = a.sum(1)
    loops = a + np.eye(n)
    p = loops / np.sqrt(np.outer(loops.sum(1), loops.sum(1)))
    label = np.eye(classes)[graph.y]
    first = np.where(graph.train[:, None], label, soft)
    y = first
    for _ in range(steps):
        y = 0.5 * p @ y + 0.5 * first
        y[graph.train] += first[graph.train]
    pr = np.where(graph.train[:, None], label, softmax(y))
    q = np.where(graph.train[:, None], label, softmax(y / temperature))
    raw = [(pr**o).mean(0) for o in range(1, order + 1)]
    central = [((pr - pr.mean(0)) ** o).mean(0) for o in range(1, order + 1)]
    entropy = np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0).sum(1)
    w = classes / np.e * degree.sum() + (degree * entropy).sum()
    return np.concatenate(raw + central), w


def test_clients_tell_the_papers_moments_and_confidence():
    parties = community_parties((9, 13, 7))
    cohort = Cohort(parties, dtype=torch.float64)
    rng = np.random.default_rng(3)
    soft_K = [softmax(rng.normal(size=(g.nodes, 3))) for g in parties]
    y = spread_labels(torch.from_numpy(np.concatenate(soft_K)), cohort, "all", 5, 0.5)
    found = moments_of(distributions(y, cohort, 1.0), cohort, "hybrid", 4)
    clear = confidence(distributions(y, cohort, 20.0), cohort)
    for k, (graph, soft) in enumerate(zip(parties, soft_K, strict=True)):
        moments, w = told(graph, soft, 4)
        np.testing.assert_allclose(found[k], moments, rtol=0, atol=1e-10)
        assert float(clear[k]) == pytest.approx(w, abs=1e-10)
    raw = moments_of(distributions(y, cohort, 1.0), cohort, "raw", 4)
    central = moments_of(distributions(y, cohort, 1.0), cohort, "central", 4)
    torch.testing.assert_close(torch.cat([raw, central], dim=1), found, rtol=0, atol=0)


def test_the_ports_spreading_starts_from_predictions_of_training_nodes():
    """A path of three nodes of which the first trains: degrees 1, 2, 1."""
    edges = np.array([[0, 1], [1, 2]])
    graph = make_graph(np.ones((3, 1), dtype=np.float32), edges, np.array([0, 1, 1]), classes=2)
    train_first = np.array([True, False, False])
    graph = graph.relabelled(y=graph.y, train=train_first, val=~train_first, name="path")
    soft = torch.tensor([[0.6, 0.4], [0.5, 0.5], [0.1, 0.9]], dtype=torch.float64)
    cohort = Cohort([graph], dtype=torch.float64)
    first = np.array([[0.6, 0.4], [0, 0], [0, 0]])
    root = 1 / np.sqrt(2)
    operator = np.array([[0, root, 0], [root, 0, root], [0, root, 0]])
    once = 0.5 * operator @ first + 0.5 * first
    expected = 0.5 * operator @ once + 0.5 * first
    found = spread_labels(soft, cohort, "training", 2, 0.5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_neighbourhoods_are_thresholded_and_weighed():
    similarity = torch.tensor([[1.0, 0.9, 0.2], [0.9, 1.0, 0.6], [0.2, 0.6, 1.0]])
    found = shares(similarity, torch.tensor([1.0, 3.0, 4.0]), 0.5)
    expected = [[1 / 4, 3 / 4, 0], [1 / 8, 3 / 8, 4 / 8], [0, 3 / 7, 4 / 7]]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_clients_without_edges_count_the_same_among_themselves():
    similarity = torch.tensor([[1.0, 0.9], [0.9, 1.0]])
    found = shares(similarity, torch.zeros(2), 0.5)
    torch.testing.assert_close(found, torch.full((2, 2), 0.5))


def test_a_client_unlike_all_others_keeps_its_own_model():
    similarity = torch.eye(3) + 0.1 * (1 - torch.eye(3))
    torch.testing.assert_close(shares(similarity, torch.ones(3), 0.5), torch.eye(3))


@pytest.mark.parametrize("evaluates", ["local", "mixed"])
def test_everybody_alike_and_equal_weights_is_fed_avg(evaluates):
    parties = community_parties()
    both = {"epochs": 2}
    gta = train(make("fed-gta", eps=-1.0, weights="equal", evaluates=evaluates, **both), parties)
    avg = train(make("fed-avg", weights="equal", **both), parties)
    assert_same_model(gta.clients, avg.clients)
    for name, leaf in under(avg.server, "model").items():
        for own in under(gta.server, "model")[name]:
            torch.testing.assert_close(own, leaf, rtol=0, atol=1e-12)


def test_one_client_is_local_training():
    alone = community_parties((30,))
    assert_same_model(train(make("local"), alone).clients, train(make("fed-gta"), alone).clients)


def test_a_run_in_which_nobody_was_alike_says_so():
    method = make("fed-gta", eps=0.9)
    unlike = {"similarity": {"between": torch.eye(3)}}
    assert "lower method.eps" in method.remarks(unlike, None)[0]
    assert method.remarks({"similarity": {"between": torch.ones(3, 3)}}, None) == []
