"""Disentangled convolutions: a factor of a node that is zero, and large graphs."""

import torch

from atoll.ops import routing
from atoll.ops.routing import Sides, routed


def test_a_factor_that_dropout_has_emptied_has_finite_gradients():
    x = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[1, 0] = 0.0  # a node of which nothing is left in the first factor
    x[3] = 0.0  # and one without neighbours of which nothing is left at all
    x.requires_grad_()
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    u = routed(x, Sides(edges, (4,)), 6)
    assert torch.equal(u[3], torch.zeros(2, 3, dtype=torch.float64))
    [grad] = torch.autograd.grad(u.sum(), x)
    assert float(grad.detach().abs().max()) < 100


def test_large_graphs_are_routed_to_the_same_bits_in_less_memory(monkeypatch):
    edges = torch.randint(0, 30, (2, 400))

    def gradient():
        x = torch.linspace(-1, 1, 30 * 2 * 5, dtype=torch.float64).sin().view(30, 2, 5)
        x.requires_grad_()
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            u = routing.routed(x, Sides(edges, (30,)), 4)
        (grad,) = torch.autograd.grad((u * torch.arange(5.0)).sum(), x)
        return u.detach(), grad, sum(t.numel() for t in kept)

    u, grad, numbers = gradient()
    monkeypatch.setattr(routing, "_LARGE", 0)
    again, grad_again, fewer = gradient()
    assert torch.equal(u, again)
    assert torch.equal(grad, grad_again)
    assert fewer < numbers / 2
