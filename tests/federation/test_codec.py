"""What a message keeps, and what no message may be. The wire law sends every method through it."""

import pickle

import pytest
import torch

from atoll.archive import pack
from atoll.errors import AtollError
from atoll.federation import codec
from atoll.federation.calls import Call
from atoll.federation.codec import (
    Answer,
    BadMessage,
    Request,
    decode_answer,
    decode_request,
    step_answer,
    step_batch,
    step_call,
    step_request,
)
from atoll.federation.validation import Batch
from atoll.leaves import Ragged

CALL = Call("train", 3, 1, {"model/w": torch.randn(2, 3)})
ROW = {"each/a": Ragged(torch.randn(4, 2), (4,)), "each/b": torch.tensor([[1, 2]])}


def test_a_call_survives_the_wire():
    sent = step_request(CALL, ROW, "run-1", 7)
    request = decode_request(sent.encode())
    assert (request.ask, request.run, request.attempt, request.id) == ("step", "run-1", 7, sent.id)
    received, own = step_call(request)
    assert (received.step, received.round, received.nth) == ("train", 3, 1)
    assert torch.equal(received.shared["model/w"], CALL.shared["model/w"])
    assert own["each/a"].sizes == (4,)
    assert torch.equal(own["each/a"].values, ROW["each/a"].values)
    assert own["each/b"].dtype == torch.int64


@pytest.mark.parametrize("weight", [None, torch.tensor([2.5], dtype=torch.float64)])
def test_a_reply_survives_the_wire(weight):
    batch = Batch((4,), {"model/w": torch.randn(1, 3), "rows": Ragged(torch.ones(2), (2,))}, weight)
    answer = decode_answer(step_answer(step_request(CALL, ROW), batch).encode())
    received = step_batch(4, answer)
    assert received.clients == (4,)
    assert list(received.body) == ["model/w", "rows"]
    assert torch.equal(received.body["model/w"], batch.body["model/w"])
    assert received.body["rows"].sizes == (2,)
    assert received.weight is None if weight is None else torch.equal(received.weight, weight)


@pytest.mark.parametrize(
    "tree",
    [
        {"body/w": torch.zeros(2, 3)},
        {"body/w": torch.tensor(1.0)},
        {"body/w": Ragged(torch.zeros(2), (1, 1))},
        {"body/w": torch.zeros(1), "weight": torch.ones(2)},
        {"body/w": torch.zeros(1), "weight": Ragged(torch.zeros(1), (1,))},
    ],
)
def test_a_reply_of_other_than_one_client_is_refused(tree):
    with pytest.raises(BadMessage, match="not one"):
        step_batch(0, Answer("id", tree))


@pytest.mark.parametrize("decode", [decode_request, decode_answer])
@pytest.mark.parametrize(
    "damage",
    [b"", b"\x00" * 40, pickle.dumps({"a": 1}), pack({"a": torch.zeros(3)}, {}), "no bytes"],
)
def test_a_damaged_message_is_one_sentence(decode, damage):
    with pytest.raises(AtollError, match="damaged"):
        decode(damage)


def test_a_cut_message_is_one_sentence():
    message = Request("hello", tree={"a": torch.zeros(100)}).encode()
    with pytest.raises(AtollError, match="damaged"):
        decode_request(message[:-7])


@pytest.mark.parametrize("sizes", [(1,), (4,), (-1, 3)])
def test_a_ragged_leaf_whose_sizes_do_not_fit_is_refused(sizes):
    message = Answer("id", {"body/w": Ragged(torch.zeros(2, 5), sizes)}).encode()
    with pytest.raises(BadMessage, match="damaged"):
        decode_answer(message)


def test_a_step_that_does_not_say_which_is_refused():
    with pytest.raises(BadMessage, match="nth"):
        step_call(Request("step", facts={"step": "train", "round": 1}))


def test_a_message_that_is_too_large_is_refused_before_it_is_opened(monkeypatch):
    message = Request("hello").encode()
    monkeypatch.setattr(codec, "LARGEST_MESSAGE", len(message))
    assert decode_request(message).ask == "hello"
    monkeypatch.setattr(codec, "LARGEST_MESSAGE", len(message) - 1)
    with pytest.raises(BadMessage, match="more than"):
        decode_request(message)
