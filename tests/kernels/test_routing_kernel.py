"""Routing by the kernels and by torch."""

from __future__ import annotations

import pytest
import torch

from atoll import kernels
from atoll.ops.routing import Sides, routed
from atoll.ops.written_out import differentiated_once

pytest.importorskip("numba")


def result_and_slopes(x, edges, on, sizes=()):
    """What three routings make of nodes, and the gradient of something that uses every number."""
    x = x.clone().requires_grad_()
    weights = torch.linspace(-1, 2, x.numel(), dtype=x.dtype).reshape(x.shape)
    with kernels.switched(on), differentiated_once():
        u = routed(x, Sides(edges, sizes or (len(x),)), 3)
        (slopes,) = torch.autograd.grad((weights * u).sum(), x)
    return u.detach(), slopes


def some_nodes(nodes, factors, width, edges, dtype=torch.float64):
    draws = torch.Generator().manual_seed(nodes + width)
    x = torch.randn(nodes, factors, width, dtype=dtype, generator=draws)
    x[0] = 0  # nothing is left of the first node, and of one factor of the last
    x[-1, 0] = 0
    return x, torch.randint(0, nodes, (2, edges), generator=draws)


@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (1, 2), (5, 0), (30, 200), (400, 3000)])
@pytest.mark.parametrize(("factors", "width"), [(1, 1), (2, 7), (3, 16), (6, 64)])
def test_the_kernel_gives_the_numbers_and_gradients_of_torch(nodes, edges, factors, width):
    x, ends = some_nodes(nodes, factors, width, edges)
    ours, torchs = (result_and_slopes(x, ends, on) for on in (True, False))
    for mine, reference in zip(ours, torchs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-10)


def test_single_precision_agrees_as_far_as_it_reaches():
    x, edges = some_nodes(200, 4, 32, 1500, torch.float32)
    ours, exact = result_and_slopes(x, edges, True), result_and_slopes(x.double(), edges, False)
    for mine, reference in zip(ours, exact, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), reference, rtol=1e-3, atol=1e-4)


def test_evaluation_makes_the_same_in_less_memory():
    x, edges = some_nodes(40, 3, 16, 300)
    sides = Sides(edges, (40,))
    for routings in (1, 2, 5):
        with differentiated_once():
            trained = routed(x.clone().requires_grad_(), sides, routings)
        assert torch.equal(routed(x, sides, routings), trained)


def test_threads_give_the_same_bits(monkeypatch):
    x, edges = some_nodes(300, 2, 32, 2000)
    sizes = (120, 0, 60, 120)
    client = torch.repeat_interleave(torch.arange(4), torch.tensor(sizes))
    edges = edges[:, client[edges[0]] == client[edges[1]]]
    alone = result_and_slopes(x, edges, True, sizes)
    monkeypatch.setattr("atoll.kernels.sharing.ENOUGH", 0)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    for mine, reference in zip(result_and_slopes(x, edges, True, sizes), alone, strict=True):
        assert torch.equal(mine, reference)


def test_gradients_of_gradients_are_still_to_be_had():
    x, edges = some_nodes(6, 2, 3, 12)
    x[0], x[-1] = 1, 2
    assert torch.autograd.gradgradcheck(
        lambda x: routed(x, Sides(edges, (6,)), 2), x.requires_grad_()
    )
