"""New label domains: Algorithm 2, and transfer learning beside it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import assert_same, make, train

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import make_graph
from atoll.methods.graphfl.meta import adapted, on_queries
from atoll.methods.graphfl.new_domain import new_task, old_task
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.ops.optimize import SGD
from atoll.partition.label_domains import LabelDomains
from atoll.rng import stream
from atoll.tree import under
from small_federations import community_parties

ALPHA, BETA = 0.3, 0.2
PLAIN = {"model": SGC(), "optimizer": SGD(lr=BETA), "alpha": ALPHA, "adapt_steps": 4}


def six_classes(each=40, seed=0):
    """Six communities whose features name their class, with noise."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(6), each)
    x = (np.eye(6)[y] + 0.8 * rng.normal(size=(len(y), 6))).astype(np.float32)
    same = y[:, None] == y
    edges = np.argwhere(np.triu(rng.random(same.shape) < np.where(same, 0.1, 0.01), 1)).T
    return make_graph(x, edges, y)


def domain_parties(clients=6, labelled=6, **options):
    cut = LabelDomains(clients=clients, new_classes=2, labelled=labelled, **options)
    return cut.cut(six_classes(), stream(0, "cut"))


def test_tasks_number_a_clients_own_classes_and_the_new_ones():
    y = np.array([3, 1, 3, 1, 4, 5, 4, 5, 0, -1])
    graph = make_graph(np.zeros((10, 1), np.float32), np.zeros((2, 0), int), y, classes=6)
    masks = (np.arange(10) == np.array(rows)[:, None] for rows in ([0, 1, 4, 5], [2, 3], [6, 7]))
    train_nodes, val, test = (mask.any(0) for mask in masks)
    graph = replace(graph, train=train_nodes, val=val, test=test)
    old, new = old_task(graph, 2), new_task(graph, 2)
    assert old.y.tolist() == new.y.tolist() == [1, 0, 1, 0, 0, 1, 0, 1, -1, -1]
    assert np.flatnonzero(old.train).tolist() == [0, 1]
    assert np.flatnonzero(old.val).tolist() == [2, 3]
    assert np.flatnonzero(new.train).tolist() == [4, 5]
    assert not new.val.any()
    assert old_task(graph, 0) is graph


def test_drawn_numbers_are_the_clients_own_and_new_classes_keep_their_order():
    parties = domain_parties(clients=12)
    cohort = Cohort(parties)
    method = make("graphfl-domain", new_classes=2)
    drawn = method.old_tasks(cohort, 0)
    turned = 0
    for graph, task in zip(parties, drawn.graphs, strict=True):
        in_order = old_task(graph, 2)
        assert (in_order.y[graph.test] == task.y[graph.test]).all()
        same = (in_order.y[task.train] == task.y[task.train]).all()
        assert same or (in_order.y[task.train] == 1 - task.y[task.train]).all()
        turned += not same
    assert 0 < turned < 12
    alone = method.old_tasks(cohort.take([5]), 0)
    assert (alone.graphs[0].y == drawn.graphs[5].y).all()
    in_order = make("graphfl-domain", new_classes=2, numbering="sorted").old_tasks(cohort, 0)
    assert all(
        (a.y == old_task(g, 2).y).all() for a, g in zip(in_order.graphs, parties, strict=True)
    )


def test_a_client_with_too_many_classes_is_told_so():
    with pytest.raises(AtollError, match="trains on 3 classes besides the new ones"):
        old_task(community_parties((20,), classes=4)[0], 1)


def test_an_episode_takes_steps_on_the_loss_after_a_step():
    """``theta <- theta - beta d/dtheta L_Q(theta - alpha grad L_S(theta))`` by finite differences
    of the objective, averaged over clients."""
    parties = community_parties()
    method = make("graphfl-domain", **PLAIN, epochs=2)
    start = train(method, parties, rounds=0).server
    outcome = train(method, parties, rounds=1)
    support = Cohort(parties, dtype=torch.float64)
    query = on_queries(support)
    theta = {n: p.expand(6, *p.shape).clone() for n, p in under(start, "model").items()}

    def objective(p):
        near = adapted(p, lambda q: SGC().nll(q, support), ALPHA, 1)
        return SGC().nll(near, query)

    for _ in range(2):
        slope = {n: torch.zeros_like(p) for n, p in theta.items()}
        for name, p in theta.items():
            for entry in np.ndindex(*p.shape[1:]):
                where = (slice(None), *entry)
                there, back = ({n: q.clone() for n, q in theta.items()} for _ in range(2))
                there[name][where] += 1e-5
                back[name][where] -= 1e-5
                slope[name][where] = (objective(there) - objective(back)) / 2e-5
        theta = {n: p - BETA * slope[n] for n, p in theta.items()}
    for name, p in under(outcome.server, "model").items():
        torch.testing.assert_close(p, theta[name].mean(0), rtol=0, atol=1e-8)


def test_the_first_order_leaves_the_hessian_out():
    parties = community_parties()
    exact, first = (
        train(make("graphfl-domain", **PLAIN, order=order), parties, rounds=1)
        for order in ("second", "first")
    )
    a, b = (under(o.server, "model")["weight"] for o in (exact, first))
    assert not torch.allclose(a, b, atol=1e-6)
    torch.testing.assert_close(a, b, rtol=0, atol=0.1)


@pytest.mark.parametrize("name", ["graphfl-domain", "fed-avg-transfer"])
def test_scores_are_those_of_the_adapted_model(name):
    """Support and query nodes after adapting to the support, test nodes after the new labels."""
    parties = domain_parties()
    method = make(name, **PLAIN, new_classes=2)
    outcome = train(method, parties, rounds=1)
    model = {n: p.expand(6, *p.shape).clone() for n, p in under(outcome.server, "model").items()}
    columns = []
    whole = Cohort(parties, dtype=torch.float64)
    for cohort, splits in (
        (method.old_tasks(whole, 0), ("train", "val")),
        (method.new_tasks(whole), ("test",)),
    ):
        near = adapted(model, lambda p, c=cohort: SGC().nll(p, c), ALPHA, 4)
        right = (SGC().apply(near, cohort).argmax(1) == cohort.y).double()
        for split in splits:
            columns.append(right[cohort.rows(split)].view(6, -1).mean(1))
    torch.testing.assert_close(outcome.replies.body["metric/accuracy"], torch.stack(columns, 1))
    assert outcome.replies.body["metric/nodes"].tolist() == [[6.0, 6.0, 40.0]] * 6


def uneven_parties():
    """Graphs of different sizes, with 1, 2 and 3 query nodes."""
    parties = community_parties((16, 24, 20))
    masks = [np.cumsum(g.val) <= count + 1 for count, g in enumerate(parties)]
    return [replace(g, val=g.val & mask) for g, mask in zip(parties, masks, strict=True)]


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize(
    ("name", "labelled"), [("graphfl-domain", "val"), ("fed-avg-transfer", "train")]
)
def test_other_weights_count_the_nodes_of_the_objective(name, labelled, literal):
    """``sum_k s_k n_k theta_k / sum_k s_k n_k``, or to the letter ``/ (s n)``: s_k are the query
    nodes of Algorithm 2, whose objective is their loss, and the training nodes of FedAvg."""
    parties = uneven_parties()
    weights = {"weights": "labelled-and-size", "literal_weights": literal}
    outcome = train(make(name, **PLAIN, **weights), parties, rounds=1)
    s = torch.tensor([float(getattr(g, labelled).sum()) for g in parties], dtype=torch.float64)
    n = torch.tensor([float(g.nodes) for g in parties], dtype=torch.float64)
    divisor = s.sum() * n.sum() if literal else (s * n).sum()
    for part, leaf in under(outcome.clients, "model").items():
        expected = torch.tensordot(s * n / divisor, leaf, dims=1)
        torch.testing.assert_close(under(outcome.server, "model")[part], expected)
        assert not torch.allclose(expected, torch.tensordot(s / s.sum(), leaf, dims=1))


@pytest.mark.parametrize(
    ("name", "shares"),
    [("graphfl-domain", [1 / 3, 1 / 3, 1 / 3]), ("fed-avg-transfer", [1 / 7, 2 / 7, 4 / 7])],
)
def test_usually_meta_learners_count_alike_and_fed_avg_counts_old_labels(name, shares):
    """Clients have 1, 2 and 4 training nodes of old classes, and others of new ones."""
    parties = domain_parties(clients=3)
    for k, graph in enumerate(parties):
        old = graph.y < 4
        few = np.cumsum(graph.train & old) <= 2**k
        parties[k] = replace(graph, train=np.where(old, graph.train & few, graph.train))
    outcome = train(make(name, **PLAIN, new_classes=2), parties, rounds=1)
    for part, leaf in under(outcome.clients, "model").items():
        expected = torch.tensordot(torch.tensor(shares, dtype=leaf.dtype), leaf, dims=1)
        torch.testing.assert_close(under(outcome.server, "model")[part], expected)


@pytest.mark.parametrize("name", ["graphfl-domain", "fed-avg-transfer"])
def test_new_classes_obey_the_cohort_law(name):
    parties = domain_parties()
    options = {"model": GCN(hidden=4, head="graph"), "new_classes": 2, "epochs": 2}
    whole = train(make(name, **options), parties)
    assert_same(whole, train(make(name, **options), parties, chunk=2), 1e-9)


def test_nothing_is_learnt_from_new_classes_before_testing():
    """Other nodes to adapt with give the same global model."""
    parties = domain_parties()
    other = []
    for g in parties:
        new = g.y >= 4
        train_nodes, test = np.where(new, g.test, g.train), np.where(new, g.train, g.test)
        other.append(replace(g, train=train_nodes, test=test))
    for name in ("graphfl-domain", "fed-avg-transfer"):
        method = make(name, **PLAIN, new_classes=2)
        ours, theirs = (under(train(method, p).server, "model") for p in (parties, other))
        assert all(torch.equal(ours[n], theirs[n]) for n in ours)


def test_heads_have_as_many_outputs_as_their_task_has_classes():
    parties = domain_parties()
    gcn = GCN(hidden=4)

    def outputs(name, **options):
        method = make(name, model=gcn, new_classes=2, **options)
        return under(train(method, parties, rounds=1).server, "model")["classifier.bias"].shape[0]

    assert outputs("graphfl-domain") == outputs("fed-avg-transfer") == 2
    assert outputs("fed-avg-transfer", head="fresh") == 4


def test_a_fresh_head_keeps_the_layers_below():
    parties = domain_parties()
    method = make("fed-avg-transfer", model=GCN(hidden=4), new_classes=2, head="fresh")
    outcome = train(method, parties, rounds=1)
    trained = under(outcome.server, "model")
    moved = method.transferred(trained, outcome.fed.host.cohort, 0)
    assert moved["classifier.weight"].shape == (4, 2)
    assert all(torch.equal(moved[n], trained[n]) for n in trained if n.startswith("conv"))


def test_meta_learning_adapts_better_than_a_kept_classifier():
    parties = domain_parties(clients=10)
    options = {"model": SGC(), "alpha": 1.0, "new_classes": 2, "epochs": 5}
    meta, kept = (
        train(make(name, **options), parties, rounds=15).replies.body["metric/accuracy"][:, 2]
        for name in ("graphfl-domain", "fed-avg-transfer")
    )
    assert meta.mean() > 0.8
    assert meta.mean() >= kept.mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "method.alpha is 0"),
        ({"new_classes": -1}, "method.new_classes is -1"),
        ({"adapt_steps": -2}, "method.adapt_steps is -2"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(AtollError, match=message):
        make("graphfl-domain", **options)


def test_too_many_new_classes():
    with pytest.raises(AtollError, match="of 6 classes at most 3 can be new"):
        train(make("graphfl-domain", new_classes=4), domain_parties())
