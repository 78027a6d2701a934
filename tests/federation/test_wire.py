import pickle

import pytest
import torch

from atoll.archive import pack
from atoll.errors import AtollError
from atoll.federation.protocol import Call
from atoll.federation.wire import decode, decode_call, encode_call
from atoll.tree import Ragged


def test_a_call_survives_the_wire():
    call = Call("train", 3, 1, {"model/w": torch.randn(2, 3)})
    row = {"each/a": Ragged(torch.randn(4, 2), (4,)), "each/b": torch.tensor([[1, 2]])}
    received, own = decode_call(encode_call(call, row))
    assert (received.step, received.round, received.nth) == ("train", 3, 1)
    assert torch.equal(received.shared["model/w"], call.shared["model/w"])
    assert own["each/a"].sizes == (4,)
    assert torch.equal(own["each/a"].values, row["each/a"].values)
    assert own["each/b"].dtype == torch.int64


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, pickle.dumps({"a": 1})])
def test_a_damaged_message_is_one_sentence(damage):
    with pytest.raises(AtollError, match="damaged"):
        decode(damage)


def test_a_cut_message_is_one_sentence():
    message = pack({"a": torch.zeros(100)}, {})
    with pytest.raises(AtollError, match="damaged"):
        decode(message[:-7])
