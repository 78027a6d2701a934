"""Biases, relu and dropout in one pass, beside the torch operations that they stand for."""

import pytest
import torch

from atoll import kernels
from atoll.ops.activation import rectified, shifted
from atoll.ops.written_out import differentiated_once
from atoll.rng import CohortRng

pytestmark = pytest.mark.skipif(not kernels.installed(), reason="kernels are off")
SIZES = (3, 1, 4)
BATCH = torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])


def rows(d: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    h, bias_K = (
        torch.randn(n, d, dtype=torch.float64, generator=generator, requires_grad=True)
        for n in (8, 3)
    )
    return h, bias_K


def made_and_gradients(compute):
    """With kernels and without: the result, and the gradients of the sum of its squares."""
    found = []
    for on in (True, False):
        h, bias_K = rows()
        with kernels.switched(on), differentiated_once():
            made = compute(h * 1, bias_K)
        found.append((made.detach(), *torch.autograd.grad(made.square().sum(), (h, bias_K))))
    return found


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
def test_relu_and_dropout_are_those_of_torch(rate):
    def compute(h, bias_K):
        coins = CohortRng(1, (0, 4, 2), 3, "train")
        return rectified(h, bias_K, BATCH, SIZES, rate, coins)

    ours, torchs = made_and_gradients(compute)
    assert (ours[0] == 0).any()
    assert (ours[0] > 0).any()
    for one, other in zip(ours, torchs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


def test_biases_are_those_of_torch():
    ours, torchs = made_and_gradients(lambda h, bias_K: shifted(h, bias_K, BATCH, SIZES))
    for one, other in zip(ours, torchs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


def test_a_gradient_that_others_hold_too_is_left_as_it_was():
    h, bias_K = rows()
    with differentiated_once():
        made = rectified(h * 1, bias_K, BATCH, SIZES)
    given = torch.ones_like(made)
    made.backward(given)
    assert (h.grad == 0).any()
    assert (given == 1).all()


def test_gradients_of_gradients_are_left_to_torch():
    h, bias_K = rows()
    made = rectified(h * 1, bias_K, BATCH, SIZES).pow(3).sum()
    (once,) = torch.autograd.grad(made, h, create_graph=True)
    (twice,) = torch.autograd.grad(once.sum(), h)
    now = (h + bias_K[BATCH]).clamp(min=0)
    torch.testing.assert_close(twice, 6 * now)


def test_who_differentiates_twice_all_the_same_is_refused():
    h, bias_K = rows()
    with differentiated_once():
        made = rectified(h * 1, bias_K, BATCH, SIZES).square().sum()
    with pytest.raises(RuntimeError, match="can't be differentiated again"):
        torch.autograd.grad(made, h, create_graph=True)
