"""Disentangled convolutions where a factor of a node is zero."""

import torch

from atoll.models.disen import routed


def test_a_factor_that_dropout_has_emptied_has_finite_gradients():
    x = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[1, 0] = 0.0  # a node of which nothing is left in the first factor
    x[3] = 0.0  # and one without neighbours of which nothing is left at all
    x.requires_grad_()
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    u = routed(x, edges, 6)
    assert torch.equal(u[3], torch.zeros(2, 3, dtype=torch.float64))
    [grad] = torch.autograd.grad(u.sum(), x)
    assert float(grad.detach().abs().max()) < 100
