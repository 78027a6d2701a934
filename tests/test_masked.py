import pytest
import torch

from atoll.masked import Masked, MaskedLike, filled, masked, masked_like, unmasked
from atoll.tree import flatten, unflatten

VALUES = torch.tensor([[[0.0, 0], [0, 0], [4, 5]], [[0, 0], [0, 0], [0, 0]]])
KEPT = torch.tensor([[[1, 0], [0, 0], [1, 1]], [[0, 0], [0, 0], [0, 0]]]).bool()


def through_bytes(leaf):
    return unflatten(flatten({"model/w": leaf}))["model/w"]


def test_only_kept_entries_travel_and_come_back():
    packed = through_bytes(Masked(VALUES, KEPT))
    assert packed.values.values.tolist() == [0, 4, 5]
    assert packed.values.sizes == (3, 0)
    assert packed.pattern.shape == (2, 1)
    back = MaskedLike(VALUES[0]).received(packed)
    assert torch.equal(back.values, VALUES)
    assert torch.equal(back.kept, KEPT)


def test_everything_kept_travels_as_it_is():
    values = torch.randn(2, 3, 5)
    packed = through_bytes(Masked(values, torch.ones(2, 3, 5).bool()))
    assert packed.values.sizes == (15, 15)
    assert torch.equal(packed.unpacked(torch.Size([3, 5])).values, values)


def test_what_a_ledger_writes_is_the_same_before_and_after_the_wire():
    leaf = Masked(VALUES, KEPT)
    assert leaf.columns() == through_bytes(leaf).columns()
    whole, pattern = leaf.columns()
    assert whole.sizes == (3, 0)
    assert pattern.shape == (1,)


def test_a_pattern_that_does_not_fit_its_values_is_noticed():
    packed = through_bytes(Masked(torch.ones(3, 9), torch.ones(3, 9).bool()))
    packed.pattern[1, 0] = 0
    like = MaskedLike(torch.zeros(9))
    assert set(like.misfits(packed, (7, 8, 9))) == {1}
    assert like.misfits(through_bytes(Masked(torch.ones(3, 9), torch.ones(3, 9) > 0)), "abc") == {}


@pytest.mark.parametrize(
    "leaf",
    [
        torch.zeros(2, 9),
        Masked(torch.zeros(2, 8), torch.ones(2, 8) > 0),
        Masked(torch.zeros(2, 9).double(), torch.ones(2, 9) > 0),
        Masked(torch.zeros(2, 20), torch.ones(2, 20) > 0).packed(),
    ],
)
def test_other_shapes_and_types_are_refused_for_everybody(leaf):
    assert set(MaskedLike(torch.zeros(9)).misfits(leaf, (0, 1))) == {0, 1}


@pytest.mark.parametrize(
    ("ending", "lie"),
    [
        ("#sizes", torch.tensor([4, 0])),
        ("#sizes", torch.tensor([-1, 4])),
        ("#pattern", torch.zeros(3, 1, dtype=torch.uint8)),
        ("#kept", torch.zeros(3, 1)),
    ],
)
def test_parts_that_do_not_belong_together_are_no_leaf(ending, lie):
    parts = flatten({"model/w": Masked(VALUES, KEPT)})
    with pytest.raises(ValueError, match=r"fit|belong"):
        unflatten(parts | {"model/w" + ending: lie})


def test_a_client_goes_on_from_its_own_values_where_nothing_was_sent():
    own = torch.full_like(VALUES, 9.0)
    sent = masked({"w": VALUES, "b": torch.ones(2, 1)}, {"w": KEPT})
    expected = [[[0.0, 9], [9, 9], [4, 5]], [[9, 9], [9, 9], [9, 9]]]
    assert filled(sent, {"w": own})["w"].tolist() == expected
    assert filled({"w": through_bytes(sent["w"])}, {"w": own})["w"].tolist() == expected
    assert filled(sent, {"w": own})["b"] is sent["b"]


def test_masked_and_unmasked_are_inverse():
    values, kept = unmasked(masked({"w": VALUES, "b": torch.ones(2)}, {"w": KEPT}))
    assert set(values) == {"w", "b"}
    assert torch.equal(kept["w"], KEPT)
    one = masked_like({"w": VALUES[0], "b": torch.ones(1)}, kept)
    assert isinstance(one["w"], MaskedLike)
    assert isinstance(one["b"], torch.Tensor)


def test_taking_some_clients():
    leaf = Masked(VALUES, KEPT)
    for some in (leaf.take([1, 0]), through_bytes(leaf).take([1, 0])):
        assert some.columns()[0].sizes == (0, 3)
    again = Masked.joined([leaf.take([0]), leaf.take([1])])
    assert torch.equal(again.kept, KEPT)
    assert torch.equal(leaf.clone().values, VALUES)


def test_nobody_keeps_nothing():
    assert Masked(torch.zeros(0, 4), torch.ones(0, 4).bool()).sizes == ()
    assert Masked(torch.zeros(2, 4), torch.ones(2, 4).bool()).sizes == (4, 4)
    assert Masked(torch.zeros(2, 2), torch.tensor([[1, 0], [1, 1]]).bool()).sizes == (1, 2)
