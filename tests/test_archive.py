import pytest
import torch

from atoll.archive import Unreadable, pack, unpack
from atoll.leaves import Ragged

TREE = {
    "z/last": torch.arange(3),
    "a/first": Ragged(torch.randn(3, 2), (1, 2)),
    "m/none": torch.zeros(0, 4, dtype=torch.float64),
}


def test_a_tree_comes_back_with_its_values_facts_and_order():
    tree, facts = unpack(pack(TREE, {"round": 3}))
    assert list(tree) == list(TREE)
    assert facts == {"round": 3}
    assert torch.equal(tree["z/last"], TREE["z/last"])
    assert tree["a/first"].sizes == (1, 2)
    assert torch.equal(tree["a/first"].values, TREE["a/first"].values)
    assert tree["m/none"].shape == (0, 4)


def test_the_same_tree_gives_the_same_bytes():
    assert len({pack(TREE, {"b": 1, "a": 2}, digest=True) for _ in range(20)}) == 1


@pytest.mark.parametrize("place", [-1, -20, 60])
def test_one_flipped_bit_is_noticed(place):
    content = bytearray(pack(TREE, {}, digest=True))
    content[place] ^= 4
    with pytest.raises(Unreadable):
        unpack(bytes(content))


@pytest.mark.parametrize("content", [b"", b"12345678", b"\xff" * 64])
def test_nonsense_is_unreadable(content):
    with pytest.raises(Unreadable):
        unpack(content)
