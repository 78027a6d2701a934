"""Where an MLP's weights start from, and what is left without biases."""

import pytest
import torch

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.models.appnp import APPNP
from atoll.models.base import models
from atoll.models.mlp import MLP
from atoll.rng import stream
from atoll.tree import replicated
from small_federations import community_parties


@pytest.mark.parametrize("model", [MLP, APPNP])
@pytest.mark.parametrize(
    ("start", "bounds"),
    [("fan-in", (100**-0.5, 64**-0.5)), ("glorot", ((6 / 164) ** 0.5, (6 / 66) ** 0.5))],
)
def test_weights_fill_their_range(model, start, bounds):
    params = model(hidden=64, start=start).init(100, 2, stream(0, "start"))
    for name, bound in zip(("lin1.weight", "lin2.weight"), bounds, strict=True):
        assert 0.9 * bound < params[name].abs().max() <= bound


@pytest.mark.parametrize("name", ["mlp", "appnp", "gcn", "gat", "sage"])
def test_without_biases_a_model_is_the_one_whose_biases_are_zero(name):
    (graph,) = community_parties((20,))
    cohort = Cohort([graph], dtype=torch.float64)
    bare, full = (models[name](dropout=0.0, bias=bias) for bias in (False, True))
    params = full.init(graph.features, 3, stream(0, "bias"))
    zeroed = {n: torch.zeros_like(p) if n.endswith(".bias") else p for n, p in params.items()}
    kept = bare.init(graph.features, 3, stream(0, "bias"))
    assert set(kept) == {n for n in params if not n.endswith(".bias")}
    assert len(kept) < len(params)
    torch.testing.assert_close(
        bare.apply(replicated(kept, 1), cohort), full.apply(replicated(zeroed, 1), cohort)
    )


def test_a_bare_mlp_by_hand():
    (graph,) = community_parties((12,))
    model = MLP(hidden=4, dropout=0.0, bias=False)
    params = model.init(graph.features, 3, stream(0, "by hand"))
    x = torch.from_numpy(dense(graph.x)).double()
    expected = (x @ params["lin1.weight"]).relu() @ params["lin2.weight"]
    found = model.apply(replicated(params, 1), Cohort([graph], dtype=torch.float64))
    torch.testing.assert_close(found, expected)
