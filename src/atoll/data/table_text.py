"""How the text of a CSV file is coded: UTF-8, or what spreadsheets in Western Europe write."""

from __future__ import annotations

import logging
from codecs import getincrementaldecoder
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from atoll.errors import AtollError

UTF_8 = "utf-8-sig"
_WESTERN = "cp1252"
_PIECE = 1 << 20

log = logging.getLogger(__name__)


class _Version(NamedTuple):
    """A file as it is now, so that another under its name is looked at anew."""

    file: Path
    changed: int
    size: int


def encoding_of(file: Path) -> str:
    """The encoding by which Python reads a file; said once where it is not UTF-8."""
    facts = file.stat()
    return _encoding(_Version(file, facts.st_mtime_ns, facts.st_size))


@lru_cache(maxsize=64)
def _encoding(version: _Version) -> str:
    file = version.file
    if _is_utf8(file):
        return UTF_8
    if not _is_western(file):
        raise AtollError(f"'{file}' is not UTF-8 text; write it anew as UTF-8.")
    log.warning(
        "'%s' is not UTF-8 text: it is read as Windows-1252, as spreadsheets in Western Europe "
        "write it; write it anew as UTF-8 if letters come out wrong.",
        file,
    )
    return _WESTERN


def _is_utf8(file: Path) -> bool:
    decode = getincrementaldecoder("utf-8")().decode
    try:
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                decode(piece)
        decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _is_western(file: Path) -> bool:
    """Whether all bytes are letters of Windows-1252, and few look like UTF-8 that was damaged."""
    western = getincrementaldecoder(_WESTERN)().decode
    lenient = getincrementaldecoder("utf-8")("replace").decode
    broken = whole = 0
    try:
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                western(piece)
                text = lenient(piece)
                broken += text.count("\ufffd")
                whole += len(text) - len(text.encode("ascii", "ignore")) - text.count("\ufffd")
    except UnicodeDecodeError:
        return False
    return whole <= broken
