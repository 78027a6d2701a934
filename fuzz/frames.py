"""Requests and answers as bytes: what comes over a wire is a message of ours or refused in words.

python fuzz/frames.py [--count 1000000] [--seed 0] [--only MUTANT]
"""

from __future__ import annotations

from pathlib import Path

import torch

from atoll.errors import AtollError
from atoll.federation.calls import Call
from atoll.federation.codec import (
    Answer,
    Request,
    decode_answer,
    decode_request,
    step_batch,
    step_call,
    step_request,
)
from atoll.federation.validation import bad_values, bad_weights, misfits
from atoll.leaves import Ragged, Rows
from atoll.masked import Masked
from harness import Target, main

_BODY = {
    "body/model/w": torch.arange(6.0).view(1, 2, 3),
    "body/hidden/rows": Ragged(torch.ones(4, 2), (4,)),
    "body/sparse/m": Rows(
        Ragged(torch.tensor([0, 3], dtype=torch.int32), (2,)), Ragged(torch.ones(2, 2), (2,))
    ),
    "body/kept/w": Masked(torch.ones(1, 3, 3), torch.eye(3).bool()[None]),
}
_EXPECT = {"model/w": torch.zeros(2, 3)}


def seeds() -> list[bytes]:
    call = Call("train", 3, 0, {"model/w": torch.ones(2, 3)}, ("model", "prox"))
    facts = {"turn": "double", "client": 1, "experiment": {"method": {"name": "fed-avg"}}}
    weight = {"weight": torch.tensor([2.0], dtype=torch.float64)}
    plain = {"body/model/w": _BODY["body/model/w"]}
    return [
        step_request(call, {"prox/mu": torch.ones(1)}, "a-run", 2).encode(),
        Request("begin", "a-run", 1, facts).encode(),
        Request("hello").encode(),
        Answer("0123456789abcdef", _BODY | weight).encode(),
        Answer("0123456789abcdef", plain | weight).encode(),
        Answer("0123456789abcdef", facts={"nodes": 10, "train": 3}).encode(),
        Answer("", error="Busy").encode(),
    ]


def make(folder: Path) -> Target:
    del folder

    def attempt(content: bytes) -> bool:
        read = False
        try:
            step_call(decode_request(content))
            read = True
        except AtollError:
            pass
        try:
            batch = step_batch(0, decode_answer(content))
            bad = misfits(batch, _EXPECT) or bad_weights(batch, True, {0: 10.0})
            read = not bad and not bad_values(batch.body)
        except AtollError:
            pass
        return read

    return Target(seeds(), attempt)


if __name__ == "__main__":
    main(make, __file__, __doc__)
