import numpy as np
import pytest
import torch

from atoll.ops import kernel
from atoll.ops.kernel import kernel_mean

SIZES = (5, 1, 7)


def placed(seed=0):
    rng = np.random.default_rng(seed)
    s = torch.from_numpy(rng.uniform(-1, 1, sum(SIZES))).requires_grad_()
    h = torch.from_numpy(rng.normal(size=(sum(SIZES), 3))).requires_grad_()
    return s, h


def dense(s, h, sigma):
    """The whole kernel of every client."""
    parts = []
    for s_k, h_k in zip(torch.split(s, SIZES), torch.split(h, SIZES), strict=True):
        k = torch.exp(-((s_k[:, None] - s_k) ** 2) / sigma**2)
        parts.append(k @ h_k / k.sum(1, keepdim=True))
    return torch.cat(parts)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 1.0, 3.0, 10.0])
def test_means_and_their_gradients_are_those_of_the_whole_kernel(sigma, monkeypatch):
    monkeypatch.setattr(kernel, "_BLOCK", 3)
    s, h = placed()
    found, expected = kernel_mean(s, h, sigma, SIZES), dense(s, h, sigma)
    torch.testing.assert_close(found, expected, atol=1e-13, rtol=0)
    direction = torch.arange(found.numel(), dtype=found.dtype).view_as(found)
    mine = torch.autograd.grad((found * direction).sum(), (s, h))
    theirs = torch.autograd.grad((expected * direction).sum(), (s, h))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-11)


def test_the_ends_of_the_line_are_as_exact():
    s, h = torch.tensor([-1.0, 1.0], dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    k = np.exp(-4.0)
    expected = torch.tensor([[1, k], [k, 1]], dtype=torch.float64) / (1 + k)
    torch.testing.assert_close(kernel_mean(s, h, 1.0, (2,)), expected, atol=1e-14, rtol=0)
