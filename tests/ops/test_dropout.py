import pytest
import torch

from atoll.ops.dropout import dropout
from atoll.rng import CohortRng


def draw(clients, sizes, p=0.5, step="train#0", round=1):
    return dropout(torch.ones(sum(sizes), 40), p, CohortRng(0, clients, round, step), sizes)


def test_a_clients_mask_does_not_depend_on_its_company():
    together = draw((4, 7), (3, 5))
    torch.testing.assert_close(together[3:], draw((7,), (5,)), rtol=0, atol=0)


def test_masks_differ_between_clients_rounds_and_steps():
    masks = [draw((0,), (6,)), draw((1,), (6,)), draw((0,), (6,), round=2)]
    masks.append(draw((0,), (6,), step="train#1"))
    for i, a in enumerate(masks):
        assert not any(torch.equal(a, b) for b in masks[i + 1 :])


@pytest.mark.parametrize("p", [0.5, 0.6, 0.1])
def test_dropout_keeps_the_mean_and_drops_the_share(p):
    dropped = draw((3,), (4000,), p)
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.02)


def test_evaluation_drops_nothing():
    h = torch.randn(4, 2)
    assert dropout(h, 0.5, None, (4,)) is h


def test_some_rows_are_treated_as_among_all():
    h, rows = torch.rand(8, 40), torch.tensor([0, 2, 3, 7])
    whole = dropout(h, 0.5, CohortRng(0, (4, 7), 1, "train"), (3, 5))
    some = dropout(h[rows], 0.5, CohortRng(0, (4, 7), 1, "train"), (3, 5), rows)
    assert torch.equal(some, whole[rows])
