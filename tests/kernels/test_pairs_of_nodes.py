"""AdaFGL's sums over all pairs of nodes, by the kernel and by torch."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from atoll import kernels
from atoll.methods.ada_fgl.signed import signed_sums

pytest.importorskip("numba")
BETA, LEVEL = 0.2, 0.99


def sums_and_slopes(e, unit, on):
    """Both sums, and the gradient of something that has a use for every part of them."""
    e = e.clone().requires_grad_()
    v = normalize(e.softmax(1), dim=1)
    alike = (unit @ unit.T > LEVEL).sum() - len(e)
    with kernels.switched(on):
        above, below = signed_sums(e, v, unit, alike.to(e.dtype), BETA, LEVEL)
        weights = torch.linspace(-1, 2, e.numel(), dtype=e.dtype).reshape(e.shape)
        (slopes,) = torch.autograd.grad((weights * (above + below.square())).sum(), e)
    return above.detach(), below.detach(), slopes


@pytest.mark.parametrize("nodes", [1, 2, 3, 50, 1024, 1500])
@pytest.mark.parametrize("classes", [2, 7])
def test_the_kernel_gives_the_sums_and_gradients_of_torch(nodes, classes):
    torch.manual_seed(nodes)
    e = torch.randn(nodes, classes, dtype=torch.float64)
    unit = normalize(torch.rand(nodes, classes, dtype=torch.float64), dim=1)
    ours, torchs = (sums_and_slopes(e, unit, on) for on in (True, False))
    for mine, reference in zip(ours, torchs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-9, atol=1e-9)


def test_single_precision_agrees_as_far_as_it_reaches():
    torch.manual_seed(0)
    e, unit = torch.randn(300, 3), normalize(torch.rand(300, 3), dim=1)
    ours, exact = sums_and_slopes(e, unit, True), sums_and_slopes(e.double(), unit.double(), False)
    for mine, reference in zip(ours, exact, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), reference, rtol=1e-3, atol=1e-3)


def test_nodes_that_are_all_the_same_have_no_spread_to_divide_by():
    e = torch.ones(5, 2, dtype=torch.float64)
    unit = normalize(torch.ones(5, 2, dtype=torch.float64), dim=1)
    for found in sums_and_slopes(e, unit, True):
        assert torch.isfinite(found).all()
