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


def test_no_byte_can_be_changed_unnoticed():
    content = pack(TREE, {"round": 3}, digest=True)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        with pytest.raises(Unreadable):
            unpack(bytes(changed), digest=True)


def test_no_byte_can_be_added_or_left_out_unnoticed():
    content = pack(TREE, {"round": 3}, digest=True)
    for place in range(len(content)):
        for changed in (content[:place], content[:place] + b" " + content[place:]):
            with pytest.raises(Unreadable):
                unpack(changed, digest=True)


def test_tensors_that_the_header_does_not_name_are_refused():
    order = b'"order\\": [\\"z/last\\", '
    content = pack(TREE, {})
    assert order in content
    changed = content.replace(order, order.replace(b'\\"z/last\\", ', b" " * 12))
    with pytest.raises(Unreadable, match="does not name"):
        unpack(changed)


def test_one_changed_fact_is_noticed():
    content = pack(TREE, {"round": 3}, digest=True)
    with pytest.raises(Unreadable, match="digest"):
        unpack(content.replace(b'round\\": 3', b'round\\": 1'))


def test_a_file_without_a_digest_is_refused_where_one_is_due():
    with pytest.raises(Unreadable, match="no digest"):
        unpack(pack(TREE, {}), digest=True)


@pytest.mark.parametrize("content", [b"", b"12345678", b"\xff" * 64])
def test_nonsense_is_unreadable(content):
    with pytest.raises(Unreadable):
        unpack(content)
