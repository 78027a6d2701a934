"""GFL-APPNP against centralized APPNP and against Algorithm 1 written out with whole Jacobians."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.func import jacrev
from torch.nn.functional import cross_entropy, one_hot

from atoll.cohort import Cohort
from atoll.deploy.plan import Terms, new_plan
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, simulate
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.graph import dense
from atoll.leaves import Ragged, Rows
from atoll.methods.base import Info, initial_model
from atoll.methods.centralized import Centralized
from atoll.methods.client import Client
from atoll.methods.gfl_appnp import GFLAPPNP, FedMLP, jacobians
from atoll.methods.gfl_appnp.personalised import personalised_propagation
from atoll.models.appnp import APPNP
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.optimizers.adam import Adam
from atoll.optimizers.sgd import SGD
from atoll.partition.network import client_network
from atoll.partition.node_per_client import NodePerClient
from atoll.rng import CohortRng
from atoll.tree import under
from small_federations import community_parties, needs_data

ENCODER = MLP(hidden=5, dropout=0.0, bias=False)


def gfl(**options):
    return GFLAPPNP(**({"model": ENCODER, "optimizer": SGD(lr=0.5)} | options))


def federation(method, parties, network=None):
    """All clients in one process, in float64, and the server's first state."""
    host = Host(method, Cohort(parties, dtype=torch.float64), seed=0)
    info = Info(
        len(parties), parties[0].features, parties[0].classes, torch.float64, network=network
    )
    return InProcess(host), method.start(info, 0)


def trained(method, parties, network=None, rounds=2):
    """The server's model after each round."""
    fed, state = federation(method, parties, network)
    for r in range(1, rounds + 1):
        fed.begin(r)
        state = method.round(fed, state, r)
        yield fed, state


def ring(k):
    links = np.roll(np.eye(k), 1, axis=0)
    return sparse.csr_array(np.minimum(links + links.T, 1))


def node_clients(dense=False):
    """A graph of 25 nodes, every third of them labelled, and each node as a client."""
    (whole,) = community_parties((25,), dense=dense)
    parties = NodePerClient().cut(whole, np.random.default_rng(0))
    return whole, parties, client_network(whole, parties)


@pytest.mark.parametrize("dense", [False, True])
def test_one_local_update_per_round_is_centralized_appnp_step_by_step(dense):
    whole, parties, network = node_clients(dense)
    central = Centralized(
        model=APPNP(hidden=5, dropout=0.0, bias=False), optimizer=SGD(lr=0.5), epochs=1
    )
    host = Host(central, Cohort([whole], dtype=torch.float64), seed=0)
    centre = InProcess(host)
    steps = 0
    for fed, state in trained(gfl(epochs=1), parties, network, rounds=20):
        centre.begin(fed.round)
        central.round(centre, {}, fed.round)
        for name, theirs in under(host.state, "model").items():
            torch.testing.assert_close(state["model"][name], theirs[0], rtol=0, atol=1e-12)
        scores = gfl(epochs=1).measure(fed, state).body["metric/accuracy"]
        theirs = central.measure(centre, {}).body["metric/accuracy"]
        tested = np.array([g.test[0] for g in parties])
        assert scores[tested, 2].mean().item() == pytest.approx(theirs[0, 2].item())
        steps += 1
    assert steps == 20


def algorithm_1(parties, network, rounds, local, lr, compensated):
    """Algorithm 1 of the paper, client by client, with Jacobians by autograd, entry by entry."""
    a = torch.from_numpy(personalised_propagation(network, 0.1, 10))
    x = [torch.from_numpy(dense(g.x)).double() for g in parties]
    y = [one_hot(torch.from_numpy(g.y), g.classes).double() for g in parties]
    w = initial_model(ENCODER, x[0].shape[1], parties[0].classes, torch.float64, 0)

    def encoded(w, points):
        return (points @ w["lin1.weight"]).relu() @ w["lin2.weight"]

    clients = range(len(parties))
    for _ in range(rounds):
        h = [encoded(w, x[j]).mean(0) for j in clients]
        grad_h = [jacrev(lambda w, j=j: encoded(w, x[j]).mean(0))(w) for j in clients]
        trained = []
        for k in clients:
            chosen = np.flatnonzero(parties[k].train)
            if not len(chosen):
                continue
            c_k = sum(a[k, j] * h[j] for j in clients if j != k)
            grad_c = {n: sum(a[k, j] * grad_h[j][n] for j in clients if j != k) for n in w}
            w_k = dict(w)
            for _ in range(local):
                g = {n: torch.zeros_like(v) for n, v in w.items()}
                for s in chosen:
                    yhat = (a[k, k] * encoded(w_k, x[k][s]) + c_k).softmax(-1)
                    grad = jacrev(lambda w, s=s, k=k: encoded(w, x[k][s]))(w_k)
                    for n in w:
                        whole = a[k, k] * grad[n] + (grad_c[n] if compensated else 0)
                        g[n] += torch.tensordot(yhat - y[k][s], whole, dims=1) / len(chosen)
                w_k = {n: w_k[n] - lr * g[n] for n in w}
            trained.append(w_k)
        w = {n: torch.stack([w_k[n] for w_k in trained]).mean(0) for n in w}
    return w


@pytest.mark.parametrize("compensation", ["exact", "none"])
@pytest.mark.parametrize("dense", [False, True])
def test_it_is_algorithm_1_with_whole_jacobians(compensation, dense):
    """Structured messages and vector-Jacobian products give the same gradient as eq. 15b."""
    parties = community_parties((6, 9, 5, 7), features=10, dense=dense)
    *_, (_, state) = trained(gfl(epochs=3, compensation=compensation), parties, ring(4))
    expected = algorithm_1(parties, ring(4), 2, 3, 0.5, compensation == "exact")
    for name, value in expected.items():
        torch.testing.assert_close(state["model"][name], value, rtol=0, atol=1e-10)


def test_compensation_matters():
    parties = community_parties((6, 9, 5, 7), features=10)
    with_it, without = (
        list(trained(gfl(epochs=3, compensation=kind), parties, ring(4)))[-1][1]["model"][
            "lin1.weight"
        ]
        for kind in ("exact", "none")
    )
    assert (with_it - without).abs().max() > 1e-3


def test_without_links_it_is_fed_mlp():
    """Remark 1: with the identity for an aggregator, it is conventional federated learning."""
    parties = community_parties()
    nothing = sparse.csr_array((len(parties),) * 2)
    fed_mlp = FedMLP(model=ENCODER, optimizer=SGD(lr=0.5), epochs=4)
    *_, (_, ours) = trained(gfl(epochs=4), parties, nothing, rounds=3)
    *_, (_, theirs) = trained(fed_mlp, parties, rounds=3)
    for name, value in theirs["model"].items():
        torch.testing.assert_close(ours["model"][name], value)


def test_what_travels():
    """Who has no label only represents; Jacobians go up by rows of features a client has."""
    _, parties, network = node_clients()
    *_, (fed, _) = trained(gfl(epochs=2), parties, network, rounds=2)
    table = fed.ledger.table().filter(round=2)
    labelled = {k for k, g in enumerate(parties) if g.train.any()}
    assert set(table.filter(step="update")["client"]) == labelled
    up = table.filter(step="represent", direction="up")
    assert set(up["client"]) == set(range(25))
    words = [g.x.nnz for g in parties]
    rows = up.filter(name="jacobian/moments").sort("client")
    assert rows["shape"].to_list() == [f"[{n}, 5]" for n in words]
    assert rows["bytes"].to_list() == [n * 5 * 8 for n in words]
    numbers = up.filter(name="jacobian/moments#at").sort("client")
    assert numbers["bytes"].to_list() == [n * 4 for n in words]
    down = table.filter(step="update", direction="down", client=min(labelled))
    shapes = dict(zip(down["name"], down["shape"], strict=True))
    assert shapes == {
        "model/lin1.weight": "[24, 5]",
        "model/lin2.weight": "[5, 3]",
        "context/own": "[]",
        "context/others": "[3]",
        "gradient/moments": "[24, 5]",
        "gradient/units": "[5]",
    }


@pytest.mark.parametrize("deviation", [1.0, 0.1])
def test_noise_is_normal_on_every_entry(deviation):
    parties = community_parties((6, 9, 5, 7), features=10)
    sent = {}
    for kind in ("exact", "noisy"):
        method = gfl(compensation=kind, noise_scale=deviation)
        fed, state = federation(method, parties, ring(4))
        state = method.exchange(fed, state)
        sent[kind] = jacobians.received(state["gradient"], state["model"])
    exact = sent["exact"].in_full()
    mixing = personalised_propagation(ring(4), 0.1, 10)
    np.fill_diagonal(mixing, 0)
    scale = deviation * np.linalg.norm(mixing, axis=1)
    for noisy, clean in (
        (sent["noisy"].first_K, exact.first_K),
        (sent["noisy"].second_K, exact.second_K),
    ):
        noise = (noisy - clean).flatten(1) / torch.from_numpy(scale)[:, None]
        assert abs(noise.mean().item()) < 0.25
        assert noise.std().item() == pytest.approx(1, abs=0.2)


def test_aggregate_noise_moves_the_average_as_sent_noise_does():
    """The same deviation of every weight over draws of the noise, and the same mean."""
    _, parties, network = node_clients()
    moved = {}
    for kind in ("sent", "aggregate"):
        noise = {"compensation": "noisy", "noise": kind, "noise_scale": 0.5}
        method = gfl(epochs=2, optimizer=SGD(lr=0.1), **noise)
        cohort = Cohort(parties, dtype=torch.float64)
        info = Info(25, 24, 3, torch.float64, network=network)
        draws = []
        for seed in range(100):
            fed, state = InProcess(Host(method, cohort, seed=seed)), method.start(info, 0)
            fed.begin(1)
            draws.append(method.round(fed, state, 1)["model"]["lin1.weight"])
        moved[kind] = torch.stack(draws)
    sent, aggregate = moved["sent"], moved["aggregate"]
    assert (aggregate.std(0) / sent.std(0)).mean().item() == pytest.approx(1, abs=0.05)
    assert ((aggregate.mean(0) - sent.mean(0)).abs() / sent.std(0)).mean() < 0.2


def test_aggregate_noise_is_for_simulations():
    method = {"name": "gfl-appnp", "compensation": "noisy", "noise": "aggregate"}
    experiment = resolve({"method": method, "split": {"kind": "public"}})
    with pytest.raises(AtollError, match="can't be deployed: with"):
        new_plan("nvflare", ("one", "two"), experiment, Terms())
    assert not gfl(compensation="noisy").only_simulated
    assert not gfl(noise="aggregate").only_simulated


def test_batches_change_the_updates_and_are_repeatable():
    parties = community_parties()
    runs = [
        list(trained(gfl(batch=batch), parties, ring(6)))[-1][1]["model"]["lin2.weight"]
        for batch in (2, 2, 0, 1000)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.allclose(runs[0], runs[2])
    assert torch.equal(runs[2], runs[3])


def test_a_client_that_sends_rows_of_features_that_do_not_exist_is_left_out(monkeypatch):
    parties = community_parties()
    honest = GFLAPPNP.represent

    def lie(self, client, model):
        reply = honest(self, client, model)
        moments = reply.kinds["jacobian"]["moments"]
        at = moments.at.values.clone()
        at[0] = 99
        reply.kinds["jacobian"]["moments"] = Rows(Ragged(at, moments.at.sizes), moments.rows)
        return reply

    lie.is_client_step = True
    monkeypatch.setattr(GFLAPPNP, "represent", lie)
    *_, (fed, state) = trained(gfl(), parties, ring(6), rounds=1)
    assert {(r.step, r.client) for r in fed.rejections} == {("represent", 0)}
    assert state["trains"]["rows"].tolist() == [1, 2, 3, 4, 5]
    assert state["model"]["lin1.weight"].isfinite().all()


def test_its_loss_goes_down():
    """Eq. 14's (y - y^) would climb."""
    _, parties, network = node_clients()
    method = gfl()
    losses = []
    for fed, state in trained(method, parties, network, rounds=30):
        body = method.measure(fed, state).body
        counts = body["metric/nodes"][:, 0] > 0
        losses.append(body["metric/loss"][counts, 0].mean().item())
    assert losses[-1] < losses[0] / 4


def test_clients_can_be_judged_by_the_mean_of_their_points():
    """With one point per client it is the accuracy; clients without a test point have none."""
    _, parties, network = node_clients()
    method = gfl()
    *_, (fed, state) = trained(method, parties, network, rounds=5)
    tested = [k for k, g in enumerate(parties) if g.test.any()]
    concluded = method.conclude(fed, state)
    assert list(concluded.clients) == tested
    scores = method.measure(fed, state).body["metric/accuracy"][tested, 2]
    assert torch.equal(concluded.body["metric/test_accuracy_by_mean"], scores)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": GCN()}, "model.dropout=0"),
        (
            {
                "model": MLP(bias=True, dropout=0.0),
                "compensation": "noisy",
                "noise": "aggregate",
            },
            "model.bias=false",
        ),
        ({"noise_scale": 0.0}, "method.noise_scale is 0.0; it must be above 0"),
        ({"optimizer": Adam()}, "optimizer.name=sgd"),
        ({"optimizer": SGD(momentum=0.9)}, "without momentum"),
        ({"hops": 0}, "method.hops is 0; it must be at least 1"),
        ({"alpha": 1.5}, "method.alpha is 1.5; it must be at least 0 and at most 1"),
        ({"batch": -1}, "method.batch is -1; it must be at least 0"),
    ],
)
def test_what_it_refuses(options, said):
    with pytest.raises(AtollError, match=said):
        gfl(**options)


@needs_data
def test_it_learns_the_papers_synthetic_graph():
    table = {
        "data": {"name": "csbm-dnc"},
        "split": {"kind": "public"},
        "partition": {"name": "node-per-client"},
        "model": {"name": "mlp", "hidden": 64, "dropout": 0.0, "bias": False},
        "optimizer": {"name": "sgd", "lr": 0.5},
        "method": {"name": "gfl-appnp", "epochs": 50},
    }
    experiment = resolve(table)
    fed, state = simulate(experiment, load_parties(experiment))
    for r in range(1, 21):
        fed.begin(r)
        state = experiment.method.round(fed, state, r)
    body = experiment.method.measure(fed, state).body
    tested = body["metric/nodes"][:, 2] > 0
    assert body["metric/accuracy"][tested, 2].mean() > 0.9


def test_the_gradient_of_a_whole_graph_is_the_mean_of_the_clients():
    """What one update per round does, against autograd through the propagation."""
    whole, parties, network = node_clients()
    _, state = next(iter(trained(gfl(epochs=1), parties, network, rounds=1)))
    w = initial_model(ENCODER, 24, 3, torch.float64, 0)
    w = {name: value.requires_grad_() for name, value in w.items()}
    x = torch.from_numpy(dense(whole.x)).double()
    mixing = torch.from_numpy(personalised_propagation(network, 0.1, 10))
    z = mixing @ ((x @ w["lin1.weight"]).relu() @ w["lin2.weight"])
    y, train = torch.from_numpy(whole.y), torch.from_numpy(whole.train)
    cross_entropy(z[train], y[train]).backward()
    for name, value in w.items():
        moved = (value.detach() - state["model"][name]) / 0.5
        torch.testing.assert_close(moved, value.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"compensation": "noisy"},
        {"compensation": "noisy", "noise": "aggregate"},
        {"compensation": "none"},
        {"hidden_noise": 0.5},
    ],
    ids=["noisy", "aggregate", "none", "hidden"],
)
def test_the_variants_give_the_same_numbers_in_chunks(options):
    parties = community_parties((6, 9, 5, 7), features=10)
    method = gfl(epochs=2, **options)
    found = []
    for chunk in (0, 1, 3):
        host = Host(method, Cohort(parties, dtype=torch.float64), seed=0, chunk=chunk)
        info = Info(4, 10, 3, torch.float64, network=ring(4))
        fed, state = InProcess(host), method.start(info, 0)
        for r in (1, 2):
            fed.begin(r)
            state = method.round(fed, state, r)
        found.append(state["model"]["lin1.weight"])
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=1e-9)


def test_who_trains_but_does_not_answer_leaves_the_average_to_the_others(monkeypatch):
    """With aggregate noise the server then divides by those who answered and goes on."""
    parties = community_parties()
    honest = GFLAPPNP.update

    def broken(self, client, model, context, gradient):
        reply = honest(self, client, model, context, gradient)
        reply.kinds["model"]["lin1.weight"][2] = torch.nan
        return reply

    broken.is_client_step = True
    monkeypatch.setattr(GFLAPPNP, "update", broken)
    method = gfl(compensation="noisy", noise="aggregate", optimizer=SGD(lr=0.1))
    *_, (fed, state) = trained(method, parties, ring(6), rounds=1)
    assert {(r.step, r.client) for r in fed.rejections} == {("update", 2)}
    assert state["model"]["lin1.weight"].isfinite().all()


@pytest.mark.parametrize("step", ["represent", "update", "evaluate", "judge_by_mean"])
def test_no_step_copies_the_shared_model_for_every_client(step):
    """Views of one model for a trillion clients, of which a copy would not fit in any memory."""
    method, cohort = gfl(epochs=2), Cohort(community_parties(), dtype=torch.float64)
    client = Client(method, cohort, CohortRng(0, cohort.clients, 1, step), {})
    model = method.initial_model(cohort, 0)
    views = {name: p.expand(10**12, *p.shape) for name, p in model.items()}
    others = torch.zeros(cohort.k, cohort.classes, dtype=torch.float64)
    context = {"own": torch.ones(cohort.k, dtype=torch.float64), "others": others}
    sent = {
        "represent": {},
        "update": {"context": context, "gradient": {}},
        "evaluate": {"context": context},
        "judge_by_mean": {"context": context},
    }[step]
    reply = getattr(method, step)(client, model=views, **sent)
    leaves = [leaf for kind in reply.kinds.values() for leaf in kind.values()]
    assert leaves
    assert {len(leaf.at.sizes) if isinstance(leaf, Rows) else len(leaf) for leaf in leaves} == {6}
