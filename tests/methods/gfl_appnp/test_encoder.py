"""The structured Jacobian of the shared encoder, against autograd."""

import pytest
import torch
from torch.func import jacrev

from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.leaves import Ragged, Rows, RowsLike
from atoll.methods.gfl_appnp.compensation import Structured
from atoll.methods.gfl_appnp.encoder import encode, mean_of_points, mix_moments, moments
from atoll.models.mlp import MLP
from atoll.rng import stream
from small_federations import community_parties

MODEL = MLP(hidden=6, dropout=0.0, bias=False).init(10, 3, stream(0, "encoder"))
WEIGHTS = torch.tensor([[0.0, 0.5, 0.3], [0.2, 0.0, 0.1]], dtype=torch.float64)


def parts(sizes, dense):
    parties = community_parties(sizes, features=10, dense=dense)
    cohort = Cohort(parties, dtype=torch.float64)
    return parties, cohort, encode(MODEL, cohort)


@pytest.mark.parametrize("sizes", [(6, 4, 5), (5, 5, 5)])
@pytest.mark.parametrize("dense_features", [False, True])
def test_the_whole_jacobian_follows_from_moments_and_units(sizes, dense_features):
    parties, cohort, points = parts(sizes, dense_features)
    mixed = mix_moments(WEIGHTS, moments(points.units, cohort), 10)
    units = WEIGHTS @ mean_of_points(points.units, cohort)
    jacobian = Structured(mixed, units, MODEL["lin2.weight"])

    def mean_output(w, j):
        x = torch.from_numpy(dense(parties[j].x)).double()
        return ((x @ w["lin1.weight"]).relu() @ w["lin2.weight"]).mean(0)

    by_autograd = [jacrev(mean_output)(MODEL, j) for j in range(3)]
    v = torch.tensor([[0.3, -0.5, 0.2], [-0.6, 0.1, 0.5]], dtype=torch.float64)
    for t, row in enumerate(WEIGHTS):
        for name, ours, full in (
            ("lin1.weight", jacobian.first(v), jacobian.in_full().first(v)),
            ("lin2.weight", jacobian.second(v), jacobian.in_full().second(v)),
        ):
            whole = sum(w * j[name] for w, j in zip(row, by_autograd, strict=True))
            expected = torch.tensordot(v[t], whole, dims=1)
            torch.testing.assert_close(ours[t], expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(full[t], expected, rtol=0, atol=1e-12)


def test_outputs_and_their_means_by_hand():
    """Two clients on a line: x W1 = (1, -1) x, relu, W2 = (2, 3)."""
    model = {
        "lin1.weight": torch.tensor([[1.0, -1.0]], dtype=torch.float64),
        "lin2.weight": torch.tensor([[2.0], [3.0]], dtype=torch.float64),
    }
    parties = community_parties((3, 3), features=1, dense=True)
    cohort = Cohort(parties, dtype=torch.float64)
    x = torch.from_numpy(dense(parties[0].x)).double()
    points = encode(model, cohort)
    torch.testing.assert_close(points.output[:3], 2 * x)
    torch.testing.assert_close(mean_of_points(points.output, cohort)[0], 2 * x.mean(0))


def test_only_rows_of_features_a_client_has_are_sent():
    parties, cohort, points = parts((6, 4, 5), False)
    found = moments(points.units, cohort)
    for graph, at in zip(parties, found.at.blocks(), strict=True):
        assert at.tolist() == sorted(set(graph.x.indices.tolist()))
    assert found.rows.sizes == found.at.sizes
    row = torch.zeros(6, dtype=torch.float64)
    assert not RowsLike(row, length=10).misfits(found, cohort.clients)


def test_rows_that_do_not_fit_are_found():
    at = Ragged(torch.tensor([0, 2, 1, 1, 0, 3, 5], dtype=torch.int32), (2, 2, 1, 2))
    rows = Ragged(torch.zeros(7, 4), at.sizes)
    like = RowsLike(torch.zeros(4), length=5)
    assert sorted(like.misfits(Rows(at, rows), range(4))) == [1, 3]
