"""FedMLP and lone MLPs against the general methods and a plain loop."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.graph import dense
from atoll.methods.base import Info, initial_model
from atoll.methods.gfl_appnp import FedMLP, LoneMLPs
from atoll.methods.local import Local
from atoll.models.gcn import GCN
from atoll.models.mlp import MLP
from atoll.ops.optimize import SGD
from atoll.tree import under
from small_federations import community_parties

SMALL = {"model": MLP(hidden=5, dropout=0.0, bias=False), "optimizer": SGD(lr=0.3)}


def trained(method, parties, rounds=3):
    fed = InProcess(Host(method, Cohort(parties, dtype=torch.float64), seed=0))
    info = Info(len(parties), parties[0].features, parties[0].classes, torch.float64)
    state = method.start(info, 0)
    for r in range(1, rounds + 1):
        fed.begin(r)
        state = method.round(fed, state, r)
    return fed, state


def test_every_client_counts_the_same():
    """A plain loop: full batches, four steps per round, the mean over clients of any size."""
    parties = community_parties((12, 30))
    _, state = trained(FedMLP(**SMALL, epochs=4), parties, rounds=2)
    expected = plain_loop(parties, [0.5, 0.5])
    for name, value in expected.items():
        torch.testing.assert_close(state["model"][name], value)


@pytest.mark.parametrize("literal", [False, True])
def test_other_weights_are_honoured(literal):
    """By labelled times all points, s_k n_k; to the letter, over the product of both totals."""
    parties = community_parties((12, 30))
    method = FedMLP(**SMALL, epochs=4, weights="labelled-and-size", literal_weights=literal)
    _, state = trained(method, parties, rounds=2)
    s = [int(g.train.sum()) for g in parties]
    n = [g.nodes for g in parties]
    parts = [s_k * n_k for s_k, n_k in zip(s, n, strict=True)]
    expected = plain_loop(
        parties, [p / (sum(s) * sum(n) if literal else sum(parts)) for p in parts]
    )
    for name, value in expected.items():
        torch.testing.assert_close(state["model"][name], value)


def plain_loop(parties, shares):
    """Two rounds of four full-batch steps per client, averaged by some shares."""
    server = initial_model(SMALL["model"], 24, 3, torch.float64, 0)
    for _ in range(2):
        models = []
        for graph in parties:
            x = torch.from_numpy(dense(graph.x)).double()[graph.train]
            y = torch.from_numpy(graph.y)[graph.train]
            w1, w2 = (w.clone().requires_grad_() for w in server.values())
            for _ in range(4):
                loss = cross_entropy((x @ w1).relu() @ w2, y)
                g1, g2 = torch.autograd.grad(loss, [w1, w2])
                w1, w2 = ((w - 0.3 * g).detach().requires_grad_() for w, g in ((w1, g1), (w2, g2)))
            models.append((w1.detach(), w2.detach()))
        means = [
            sum(share * w for share, w in zip(shares, ws, strict=True))
            for ws in zip(*models, strict=True)
        ]
        server = dict(zip(server, means, strict=True))
    return server


def test_lone_mlps_in_full_batches_are_local_training():
    parties = community_parties()
    alone, _ = trained(LoneMLPs(**SMALL, epochs=4), parties)
    local, _ = trained(Local(**SMALL, epochs=4), parties)
    for name, leaf in under(local.host.state, "model").items():
        torch.testing.assert_close(under(alone.host.state, "model")[name], leaf)


@pytest.mark.parametrize("method", [FedMLP, LoneMLPs])
def test_batches_are_drawn_and_repeatable(method):
    parties = community_parties()
    found = [
        trained(method(**SMALL, batch=batch), parties)[0].host.state["model/lin2.weight"]
        for batch in (2, 2, 0)
    ]
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


@pytest.mark.parametrize("method", [FedMLP, LoneMLPs])
def test_what_they_refuse(method):
    with pytest.raises(AtollError, match=r"model\.name=mlp"):
        method(model=GCN())
    with pytest.raises(AtollError, match=r"method\.batch is -1; it must be at least 0"):
        method(**SMALL, batch=-1)
