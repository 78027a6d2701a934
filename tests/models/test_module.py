import pytest
import torch
from torch import nn

from atoll.cohort import Cohort
from atoll.errors import AtollError
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


class WithStatistics(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)


@pytest.mark.parametrize(
    ("factory", "culprit"),
    [
        (WithStatistics, "norm.running_mean"),
        (lambda f, c: geometric.GCNConv(f, c, cached=True), "keeps state"),
        (lambda f, c: 3, "int"),
        ("no.such.package:net", "no.such.package:net"),
        ("torch.nn:NoSuchThing", "NoSuchThing"),
    ],
)
def test_modules_that_would_leak_or_do_not_exist_are_refused(factory, culprit):
    with pytest.raises(AtollError, match=culprit):
        Module(factory=factory).init(4, 2, stream(0))
