"""Aggregate noise, as it reaches those who train, against all clients' noise by entries."""

import numpy as np
import torch

from atoll.leaves import Ragged, Rows
from atoll.methods.gfl_appnp.aggregate_noise import draw_noise, noise_jacobian, noise_source
from atoll.methods.gfl_appnp.compensation import AtRows, Block, Full

# Five clients, of which three train; the last two columns are clients who don't.
MIXING = torch.tensor(
    [[0.0, 0.5, 0.2, 0.1, 0.3], [0.4, 0.0, 0.3, 0.2, 0.0], [0.1, 0.6, 0.0, 0.0, 0.4]],
    dtype=torch.float64,
)
# Feature 0 is the first client's, 1 all three's, 2 the last two's, 3 nobody's.
FEATURES_OF = Ragged(torch.tensor([0, 1, 1, 2, 1, 2], dtype=torch.int32), (2, 2, 2))
SOURCE = {"covariance": MIXING @ MIXING.T, "features": FEATURES_OF}
FEATURES, HIDDEN, CLASSES = 4, 2, 3
MODEL = {
    "lin1.weight": torch.zeros(FEATURES, HIDDEN, dtype=torch.float64),
    "lin2.weight": torch.zeros(HIDDEN, CLASSES, dtype=torch.float64),
}
U = torch.tensor([[0.3, -0.5, 0.2], [-0.1, 0.4, -0.3], [0.6, -0.2, -0.4]], dtype=torch.float64)


class Units:
    """In place of normal numbers: zeros, but for the n-th that is drawn."""

    def __init__(self, n):
        self.left = n

    def standard_normal(self, shape, dtype):
        numbers = np.zeros(int(np.prod(shape)), dtype)
        if 0 <= self.left < len(numbers):
            numbers[self.left] = 1.0
        self.left -= len(numbers)
        return numbers.reshape(shape)


def aggregate(n):
    """What reaches the clients (rows and second) and the server's sum, as one long vector."""
    noise = draw_noise(SOURCE, MODEL, Units(n))
    drawn = torch.zeros(FEATURES, HIDDEN, dtype=torch.float64)
    client = torch.tensor([0, 0, 1, 1, 2, 2])
    parts = torch.einsum("rc,rch->rh", U[client], noise.rows)
    drawn.index_add_(0, FEATURES_OF.values.long(), parts)
    whole = drawn + noise.rest(U)
    return torch.cat([noise.rows.flatten(), noise.second.flatten(), whole.flatten()])


def sent():
    """The same vector's covariance where all five clients add noise to all of their entries."""
    at = [(k, f) for k, fs in enumerate(((0, 1), (1, 2), (1, 2))) for f in fs]
    size = FEATURES * CLASSES * HIDDEN
    entry = torch.eye(5 * size, dtype=torch.float64).view(5, FEATURES, CLASSES, HIDDEN, 5 * size)
    n_T = torch.tensordot(MIXING, entry, dims=1)
    rows = torch.stack([n_T[k, f] for k, f in at]).flatten(0, 2)
    whole = torch.einsum("kc,kfchx->fhx", U, n_T).flatten(0, 1)
    by_w1 = torch.cat([rows, whole])
    second = torch.kron(
        MIXING @ MIXING.T, torch.eye(CLASSES * HIDDEN * CLASSES, dtype=torch.float64)
    )
    r, s = len(rows), len(second)
    covariance = torch.zeros(r + s + len(whole), r + s + len(whole), dtype=torch.float64)
    first = torch.cat([torch.arange(r), torch.arange(r + s, r + s + len(whole))])
    covariance[first[:, None], first] = by_w1 @ by_w1.T
    covariance[r : r + s, r : r + s] = second
    return covariance


def test_it_has_the_distribution_of_noise_on_every_entry_of_everybody():
    """A linear map of normal numbers has the covariance of its matrix times the transposed."""
    count = 6 * CLASSES * HIDDEN + 3 * CLASSES * HIDDEN * CLASSES + FEATURES * HIDDEN
    matrix = torch.stack([aggregate(n) for n in range(count)], dim=1)
    torch.testing.assert_close(matrix @ matrix.T, sent(), rtol=0, atol=1e-12)


def test_a_feature_that_all_have_leaves_no_rest():
    noise = draw_noise(SOURCE, MODEL, np.random.default_rng(0))
    rest = noise.rest(U)
    assert rest[1].abs().max() < 1e-7
    assert rest[[0, 2, 3]].abs().min() > 1e-3


def test_rows_are_the_jacobian_with_zeros_elsewhere():
    noise = draw_noise(SOURCE, MODEL, np.random.default_rng(0))
    ours = noise_jacobian(noise.sent(), FEATURES)
    assert isinstance(ours, AtRows)
    whole = torch.zeros(3, CLASSES, FEATURES, HIDDEN, dtype=torch.float64)
    for row, (k, f) in enumerate(zip([0, 0, 1, 1, 2, 2], FEATURES_OF.values.tolist(), strict=True)):
        whole[k, :, f] = noise.rows[row]
    full = Full(whole, noise.second)
    x_K = torch.randn(
        3, 2, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    points = Block(x_K, x_K @ x_K.mT, x_K, x_K)
    w1 = torch.ones(3, FEATURES, HIDDEN, dtype=torch.float64)
    for mine, theirs in (
        (ours.first(U), full.first(U)),
        (ours.second(U), full.second(U)),
        (ours.take_from(w1.clone(), U), w1 - full.first(U)),
        (ours.at_points(points).first(U), full.at_points(points).first(U)),
    ):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_clients_with_fewer_rows_are_filled_up():
    features = Ragged(torch.tensor([2, 0, 3], dtype=torch.int32), (1, 0, 2))
    noise = draw_noise(SOURCE | {"features": features}, MODEL, np.random.default_rng(0))
    first = noise_jacobian(noise.sent(), FEATURES).first(U)
    nonzero = first.abs().sum(-1) > 0
    assert nonzero.tolist() == [
        [False, False, True, False],
        [False, False, False, False],
        [True, False, False, True],
    ]


def test_noise_is_drawn_for_the_features_of_those_who_train():
    """Of five clients who sent moments, the first three train."""
    at = Ragged(torch.tensor([0, 1, 1, 2, 1, 2, 3, 0], dtype=torch.int32), (2, 2, 2, 1, 1))
    moments = Rows(at, Ragged(torch.zeros(8, HIDDEN), at.sizes))
    source = noise_source(MIXING, moments, torch.tensor([True, True, True, False, False]))
    assert source["features"].values.tolist() == FEATURES_OF.values.tolist()
    assert source["features"].sizes == FEATURES_OF.sizes
    torch.testing.assert_close(source["covariance"], SOURCE["covariance"])
