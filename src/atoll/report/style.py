"""How pictures look: one style, colours that can be told apart by everybody, text that is text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atoll.errors import AtollError
from atoll.files import write_bytes

# Okabe and Ito (2008), the yellow last: it is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
DASHES = ("-", "--", ":", "-.", (0, (7, 2)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (5, 1)))
MARKS = "os^DvPX*"
FORMATS = (".pdf", ".svg", ".png")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.dpi": 200,
    # Text stays text and nothing depends on the day, so that pictures differ only if numbers do.
    "svg.fonttype": "none",
    "svg.hashsalt": "atoll",
    "pdf.fonttype": 42,
}


@contextmanager
def styled() -> Iterator[None]:
    """Whatever is drawn in the block is drawn in this style."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def check_format(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise AtollError(f"'{path}' can't be drawn; end its name with one of {', '.join(FORMATS)}.")


def save(figure: Any, path: Path) -> None:
    """In the format that the file's name ends with; whole or not at all."""
    check_format(path)
    ending = path.suffix.lower()[1:]
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[ending]
    picture = io.BytesIO()
    with styled():
        figure.savefig(picture, format=ending, metadata=undated, bbox_inches="tight")
    try:
        write_bytes(path, picture.getvalue())
    except OSError as problem:
        raise AtollError(
            f"'{path}' can't be written to ({problem.strerror}); choose another --out."
        ) from None
