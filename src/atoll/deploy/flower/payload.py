"""Our messages inside Flower's: one array of bytes, which Flower neither reads nor limits."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Message, RecordDict

_RECORD, _BYTES = "atoll", "bytes"


def record(message: bytes) -> RecordDict:
    array = Array(dtype="uint8", shape=(len(message),), stype=_BYTES, data=message)
    return RecordDict({_RECORD: ArrayRecord({_BYTES: array})})


def content(message: Message) -> bytes:
    """Empty where there is nothing of ours."""
    found = message.content.array_records.get(_RECORD)
    array = None if found is None else found.get(_BYTES)
    return b"" if array is None else bytes(array.data)
