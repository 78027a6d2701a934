"""Replies are copied, and what can't be used is found on the way, with compiled kernels or not."""

import pytest
import torch

from atoll import kernels
from atoll.federation.validation import checked_copy
from atoll.masked import Masked

BAD = [torch.nan, torch.inf, -torch.inf, 2e15, 1e25]


@pytest.fixture(params=[True, False], ids=["kernels", "torch"])
def on_kernels(request):
    with kernels.switched(request.param):
        yield


def body():
    """Three clients' replies of every form."""
    torch.manual_seed(0)
    values = torch.randn(3, 5, 40)
    return {
        "model/w": torch.randn(3, 70, 4),
        "model/b": torch.randn(3, 2, dtype=torch.float64),
        "model/masked": Masked(values, values > 0),
        "metric/score": torch.tensor([0.5, 1.0, 0.0]),
        "labels/count": torch.tensor([[1, 2], [3, 4], [5, 6]]),
    }


def tensors(leaf):
    return (leaf.values, leaf.kept) if isinstance(leaf, Masked) else (leaf,)


@pytest.mark.usefixtures("on_kernels")
def test_a_copy_has_the_same_numbers_in_memory_of_its_own():
    sent = body()
    copied, bad = checked_copy(sent)
    assert bad == {}
    assert list(copied) == list(sent)
    for name, leaf in sent.items():
        for ours, theirs in zip(tensors(copied[name]), tensors(leaf), strict=True):
            assert torch.equal(ours, theirs)
            assert ours.dtype == theirs.dtype
            assert ours.data_ptr() != theirs.data_ptr()


@pytest.mark.usefixtures("on_kernels")
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ["model/w", "model/b", "model/masked", "metric/score"])
def test_who_sent_what_cannot_be_used_is_named(name, value):
    sent = body()
    tensors(sent[name])[0][1].view(-1)[-1] = value
    _, bad = checked_copy(sent)
    assert bad == {1: "it has values that are NaN, infinite or too large"}


@pytest.mark.usefixtures("on_kernels")
def test_the_largest_numbers_that_can_be_used():
    sent = {"model/w": torch.tensor([[9e14], [-9e14]])}
    assert checked_copy(sent)[1] == {}
