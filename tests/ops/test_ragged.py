import numpy as np
import pytest
import torch

from atoll.ops.ragged import ragged_linear, segment_mean, segment_softmax, segment_sum


@pytest.mark.parametrize("sizes", [(3, 1, 4), (2, 2, 2), (5,)])
def test_ragged_linear_gives_each_client_its_own_weights(sizes):
    weight_K = torch.randn(len(sizes), 3, 2, dtype=torch.float64)
    h = torch.randn(sum(sizes), 3, dtype=torch.float64)
    blocks = [rows @ w for rows, w in zip(torch.split(h, list(sizes)), weight_K, strict=True)]
    torch.testing.assert_close(ragged_linear(h, weight_K, sizes), torch.cat(blocks))


def test_ragged_linear_can_be_differentiated_twice():
    h = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    weight_K = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda a, w: ragged_linear(a, w, (2, 3)), (h, weight_K))


def skewed(k: int) -> tuple[int, ...]:
    """Sizes of many clients: most about alike, some far larger, some without rows."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 15, k)
    sizes[: k // 3] *= 4
    sizes[::29], sizes[::37] = 0, 300
    return tuple(sizes.tolist())


@pytest.mark.parametrize("sizes", [skewed(80), skewed(400), (5, 6) * 100])
def test_many_clients_in_buckets_get_the_products_and_gradients_of_one_by_one(sizes):
    torch.manual_seed(0)
    h = torch.randn(sum(sizes), 3, dtype=torch.float64, requires_grad=True)
    weight_K = torch.randn(len(sizes), 3, 2, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(sum(sizes), 2, dtype=torch.float64)

    def alone(h, weight_K):
        rows = torch.split(h, list(sizes))
        return torch.cat([r @ w for r, w in zip(rows, weight_K.unbind(), strict=True)])

    made, expected = (f(h, weight_K) for f in (lambda h, w: ragged_linear(h, w, sizes), alone))
    torch.testing.assert_close(made, expected)
    found = torch.autograd.grad(made, (h, weight_K), pull)
    torch.testing.assert_close(found, torch.autograd.grad(expected, (h, weight_K), pull))


def test_buckets_can_be_differentiated_twice():
    sizes = (1, 2) * 35
    h = torch.randn(sum(sizes), 1, dtype=torch.float64, requires_grad=True)
    weight_K = torch.randn(len(sizes), 1, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda a, w: ragged_linear(a, w, sizes), (h, weight_K))


def test_segments():
    values, segment = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 2, 2])
    assert segment_sum(values, segment, 3).tolist() == [1, 0, 8]
    assert segment_mean(values, segment, 3).tolist() == [1, 0, 4]


def test_segment_softmax_sums_to_one_and_survives_large_scores():
    scores = torch.tensor([[1000.0], [1000.0], [-5.0]])
    weights = segment_softmax(scores, torch.tensor([0, 0, 1]), 2)
    assert weights.flatten().tolist() == [0.5, 0.5, 1.0]
