"""What a record says of a message: enough to hold both sides' records against each other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from atoll.federation.codec import Answer, Request
from atoll.tree import Leaf, flatten

# A ping holds nothing and its answer says whether the site is busy; it is the one message that is
# not on record.
UNRECORDED = "ping"


def of_request(request: Request, content: bytes) -> dict[str, Any]:
    facts = request.facts
    return {
        "ask": request.ask,
        "attempt": request.attempt,
        "id": request.id,
        "round": facts.get("round", 0) if request.ask == "step" else 0,
        "step": str(facts.get("step", "")) or str(facts.get("turn", "")),
        "tensors": _tensors(request.tree),
        **_digest(content),
    }


def of_answer(id: str, answer: Answer | None, content: bytes) -> dict[str, Any]:
    """``answer`` is None where the content can't be read."""
    return {
        "id": id,
        "error": "unreadable" if answer is None else answer.error,
        "tensors": [] if answer is None else _tensors(answer.tree),
        **_digest(content),
    }


def _digest(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _tensors(tree: Mapping[str, Leaf]) -> list[list[Any]]:
    return [
        [name, str(value.dtype).removeprefix("torch."), list(value.shape)]
        for name, value in flatten(tree).items()
    ]
