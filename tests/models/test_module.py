import pytest
import torch
from torch import nn

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.laws.differences import first_difference
from atoll.laws.federation import train
from atoll.methods.fed_avg import FedAvg
from atoll.models.gcn import GCN
from atoll.models.module import Module
from atoll.rng import CohortRng, stream
from small_federations import community_parties

geometric = pytest.importorskip("torch_geometric.nn")


def pyg_gcn(features, classes):
    return geometric.GCN(features, 7, num_layers=2, out_channels=classes, dropout=0.5)


def spread_out(params, k):
    return {name: p.float().expand(k, *p.shape).clone() for name, p in params.items()}


def test_an_unchanged_pyg_model_equals_our_gcn():
    cohort = Cohort(community_parties())
    theirs = Module(factory=pyg_gcn)
    params = theirs.init(cohort.features, cohort.classes, stream(0))
    names = {"conv1": "convs.0", "conv2": "convs.1"}
    ours = {
        f"{own}.{part}": params[f"{other}.{'lin.weight' if part == 'weight' else 'bias'}"].t()
        for own, other in names.items()
        for part in ("weight", "bias")
    }
    expected = GCN(hidden=7, head="graph").apply(spread_out(ours, cohort.k), cohort)
    torch.testing.assert_close(theirs.apply(spread_out(params, cohort.k), cohort), expected)


def test_dropout_inside_a_module_is_keyed_by_client():
    parties = community_parties()
    model = Module(factory=pyg_gcn)
    params = model.init(parties[0].features, 3, stream(0))
    whole = Cohort(parties)
    together = model.apply(spread_out(params, 6), whole, CohortRng(0, whole.clients, 1, "train"))
    last = whole.take([5])
    alone = model.apply(spread_out(params, 1), last, CohortRng(0, (5,), 1, "train"))
    torch.testing.assert_close(together[-parties[5].nodes :], alone, rtol=0, atol=1e-6)
    assert not torch.allclose(together, model.apply(spread_out(params, 6), whole))


def test_building_a_module_leaves_the_global_seed_alone():
    before = torch.random.get_rng_state()
    Module(factory=pyg_gcn).init(4, 2, stream(0))
    assert torch.equal(before, torch.random.get_rng_state())


class Counting(nn.Module):
    """Remembers how often it was called, as running statistics do."""

    def __init__(self, features, classes):
        super().__init__()
        self.layer = nn.Linear(features, classes)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, edge_index):
        self.calls += 1
        return self.layer(x)


class Shifted(nn.Module):
    """A constant buffer, drawn at random."""

    def __init__(self, features, classes):
        super().__init__()
        self.layer = nn.Linear(features, classes)
        self.register_buffer("shift", torch.randn(classes))

    def forward(self, x, edge_index):
        return self.layer(x) + self.shift


class Normed(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.layer = nn.Linear(features, classes, bias=False)

    def forward(self, x, edge_index):
        return self.layer(self.norm(x))


def applied(factory, cohort, rng=None):
    model = Module(factory=factory)
    params = model.init(cohort.features, cohort.classes, stream(0))
    return params, model.apply(spread_out(params, cohort.k), cohort, rng)


def test_batch_norm_takes_its_statistics_from_each_client_alone():
    """By hand: each column of a client's features minus its mean, over its standard deviation."""
    parties = community_parties()
    cohort = Cohort(parties)
    params, scores = applied(Normed, cohort)
    assert set(params) == {"norm.weight", "norm.bias", "layer.weight"}  # nothing else is ever sent
    x = torch.from_numpy(parties[1].x.toarray())
    normed = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()
    first = parties[0].nodes
    expected = normed @ params["layer.weight"].float().T
    torch.testing.assert_close(scores[first : first + len(x)], expected, rtol=1e-4, atol=1e-5)
    _, training = applied(Normed, cohort, CohortRng(0, cohort.clients, 1, "train"))
    torch.testing.assert_close(training, scores)


def test_constant_buffers_are_the_same_for_everybody():
    cohort = Cohort(community_parties())
    torch.manual_seed(1)
    _, once = applied(Shifted, cohort)
    torch.manual_seed(2)
    _, again = applied(Shifted, cohort)
    assert torch.equal(once, again)


def test_a_module_that_changes_its_buffers_is_refused():
    with pytest.raises(AtollError, match=r"keeps state between calls .calls."):
        applied(Counting, Cohort(community_parties()))


@pytest.mark.parametrize(
    ("forward", "culprit"),
    [
        (lambda x, e: x[:, :2], r"gave \[19, 2\]; it must give .* \[19, 3\]"),
        (lambda x, e: (x, e), "gave tuple"),
        (lambda x, e: x @ x, "failed on a client's graph of 19 nodes .*line"),
    ],
)
def test_what_a_forward_gets_wrong_is_one_sentence(forward, culprit):
    def build(features, classes):
        module = nn.Linear(features, classes)
        module.forward = forward
        return module

    with pytest.raises(AtollError, match=culprit):
        applied(build, Cohort(community_parties()))


ZOO = {
    "GIN": lambda f, c: geometric.GIN(f, 8, 2, c, norm="batch_norm", dropout=0.5),
    "GATv2": lambda f, c: geometric.GAT(f, 8, 2, c, v2=True, heads=2, dropout=0.5),
    "GraphSAGE": lambda f, c: geometric.GraphSAGE(f, 8, 2, c, norm="layer_norm", jk="cat"),
    "EdgeCNN": lambda f, c: geometric.EdgeCNN(f, 8, 2, c, norm="batch_norm"),
    "PNA": lambda f, c: geometric.PNA(
        f, 8, 2, c, aggregators=["mean", "max"], scalers=["identity"], deg=torch.tensor([1, 5, 9])
    ),
    "TransformerConv": lambda f, c: geometric.TransformerConv(f, c, dropout=0.2),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", ZOO)
def test_models_of_the_pyg_zoo_train_and_do_not_mix_clients(name):
    parties = community_parties()
    method = FedAvg(model=Module(factory=ZOO[name]))
    whole, single = (train(method, parties, rounds=2, chunk=chunk, keep=True) for chunk in (0, 1))
    assert first_difference(whole, single, 1e-9) == ""
    loss = [float(scores["metric"]["loss"][:, 0].mean()) for scores in whole.scores]
    assert loss[-1] < loss[0]
    assert not any("running" in leaf for leaf in whole.server)


@pytest.mark.parametrize(
    ("factory", "culprit"),
    [
        (lambda f, c: geometric.SAGEConv(-1, c), "leaves sizes open"),
        (lambda f, c: geometric.GCNConv(f, c, cached=True), "keeps state"),
        (lambda f, c: 3, "int"),
        ("no.such.package:net", "no.such.package:net"),
        ("torch.nn:NoSuchThing", "NoSuchThing"),
    ],
)
def test_modules_that_would_leak_or_do_not_exist_are_refused(factory, culprit):
    with pytest.raises(AtollError, match=culprit):
        Module(factory=factory).init(4, 2, stream(0))
