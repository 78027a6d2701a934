"""Products by the faster library are products."""

import pytest
import torch

from atoll.ops import dense
from atoll.ops.dense import product


@pytest.mark.parametrize("rows", [1, 127, 128, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whatever_library_is_asked_the_product_is_the_same(rows, dtype):
    rng = torch.Generator().manual_seed(rows)
    a = torch.randn(rows, 40, generator=rng, dtype=dtype)
    b = torch.randn(40, 7, generator=rng, dtype=dtype)
    torch.testing.assert_close(product(a, b), a @ b)
    torch.testing.assert_close(product(a, b.t().contiguous().t()), a @ b)


def test_a_gradient_is_had_where_it_is_needed():
    a, b = torch.ones(200, 3), torch.ones(3, 2, requires_grad=True)
    product(a, b).sum().backward()
    assert torch.equal(b.grad, torch.full((3, 2), 200.0))
    with torch.no_grad():
        assert not product(a, b).requires_grad


def test_without_the_other_library_torch_multiplies(monkeypatch):
    monkeypatch.setattr(dense, "_by_onednn", lambda: None)
    a, b = torch.ones(200, 3), torch.ones(3, 2)
    assert torch.equal(product(a, b), a @ b)
