"""Stacks of which clients differ in some rows only."""

import numpy as np
import pytest
import torch

from atoll.ops.own_rows import OwnRows, Places, found_in, spread


def places() -> Places:
    """Three clients and four rows: one has the first two, one the last, one none."""
    return Places([np.array([0, 1]), np.array([3]), np.array([], dtype=np.int64)], 4)


def stack() -> OwnRows:
    common = torch.arange(8.0).view(4, 2)
    return OwnRows(common, torch.tensor([[10.0, 11.0], [12.0, 13.0], [14.0, 15.0]]), places())


def whole() -> torch.Tensor:
    full = torch.arange(8.0).view(4, 2).repeat(3, 1, 1)
    full[0, :2] = torch.tensor([[10.0, 11.0], [12.0, 13.0]])
    full[1, 3] = torch.tensor([14.0, 15.0])
    return full


def test_asked_for_its_form_it_is_not_written_out():
    s = stack()
    assert s.shape == (3, 4, 2)
    assert (len(s), s.dim(), s.dtype, s.numel()) == (3, 3, torch.float32, 24)
    assert s[0:3] is s
    assert not s.requires_grad
    assert s.compact


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s + 1,
        lambda s: s[1],
        lambda s: s[:2],
        lambda s: torch.cat([s, s]),
        lambda s: s.flatten(1).sum(1),
        lambda s: torch.tensordot(torch.eye(3), s, dims=1),
        lambda s: s.detach().requires_grad_().square().sum(),
    ],
)
def test_used_like_any_tensor_it_is_written_out_first(use):
    s = stack()
    assert torch.equal(use(s), use(whole()))
    assert not s.compact


def test_a_change_in_place_is_not_lost():
    s = stack()
    s[2].mul_(0)
    s.add_(1)
    expected = whole()
    expected[2] = 0
    assert torch.equal(s.written, expected + 1)
    assert torch.equal(s.contiguous(), expected + 1)


def test_a_weighted_sum_over_clients_needs_no_stack():
    s, weights = stack(), torch.tensor([1.0, 2.0, 3.0])
    found = torch.tensordot(weights, s, dims=1)
    assert s.compact
    assert torch.equal(found, torch.tensordot(weights, whole(), dims=1))


def test_copies_share_no_memory():
    s = stack()
    other, full = s.clone(), s.contiguous()
    assert s.compact
    s.own.zero_()
    s.common.zero_()
    assert torch.equal(other.written, whole())
    assert torch.equal(full, whole())
    other = stack().clone().zero_()
    assert not other.any()


def test_a_copy_into_another_stays_compact_where_both_have_the_same_places():
    at = places()
    one, other = (OwnRows(torch.rand(4, 2), torch.rand(3, 2), at) for _ in range(2))
    assert one.copy_(other) is one
    assert one.compact
    assert torch.equal(one.contiguous(), other.contiguous())
    assert torch.equal(stack().copy_(one), one.contiguous())


def test_common_rows_are_found_where_clients_agree():
    at = places()
    assert torch.equal(found_in(whole(), at).written, whole())
    other = whole()
    other[2, 2] = 0
    assert found_in(other, at) is None


def test_one_model_for_everybody_is_spread_into_memory_that_fits():
    at, common = places(), torch.rand(4, 2)
    first = spread(common, at)
    again = spread(common + 1, at, first)
    assert again.own.data_ptr() == first.own.data_ptr()
    assert torch.equal(again.written, (common + 1).expand(3, 4, 2))


def test_read_behind_torch_s_back_it_has_no_number():
    s = stack()
    with torch._C.DisableTorchFunctionSubclass():
        assert s.isnan().all()
