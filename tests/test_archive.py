import json

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


def tensors(**given):
    """An archive of 64 bytes of data with a header that anybody can make up."""
    known = {"x": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]},
             "y": {"dtype": "F32", "shape": [8], "data_offsets": [32, 64]}}  # fmt: skip
    for name, change in given.items():
        known[name] = known.get(name, {}) | change
    inner = json.dumps({"facts": {}, "order": list(known)})
    header = json.dumps({"__metadata__": {"atoll": inner}, **known}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(64)


@pytest.mark.parametrize(
    "given",
    [
        {"y": {"data_offsets": [0, 32]}},
        {"y": {"data_offsets": [16, 48]}},
        {"y": {"data_offsets": [32, 2**63]}},
        {"y": {"data_offsets": [2**63, 2**63 + 32]}},
        {"y": {"data_offsets": [64, 32]}},
        {"y": {"data_offsets": [-32, 0]}},
        {"y": {"data_offsets": [40, 72]}},
        {"y": {"shape": [2**61]}},
        {"y": {"shape": [2**63, 2]}},
        {"y": {"shape": [2**62, 2**62]}},
        {"y": {"shape": [-8]}},
        {"y": {"shape": [0]}},
        {"y": {"shape": []}},
        {"y": {"dtype": "F64"}},
        {"y": {"dtype": "F8_E4M3"}},
        {"z": {"dtype": "F32", "shape": [8], "data_offsets": [32, 64]}},
        {"z": {"dtype": "F32", "shape": [2**40, 0], "data_offsets": [32, 64]}},
    ],
)
def test_tensors_that_lie_over_each_other_or_beyond_the_end_are_refused(given):
    assert list(unpack(tensors())[0]) == ["x", "y"]
    with pytest.raises(Unreadable):
        unpack(tensors(**given))


@pytest.mark.parametrize("size", [2**24 + 1, 2**32, 2**63, 2**64 - 1])
def test_a_header_that_claims_to_be_huge_is_refused(size):
    with pytest.raises(Unreadable, match="header of"):
        unpack(size.to_bytes(8, "little") + b"{}")
