"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table and an empty one."""
    return [
        "| " + " | ".join(map(_cellwise, headings)) + " |",
        "|" + "---|" * len(headings),
        *("| " + " | ".join(map(_cellwise, row)) + " |" for row in rows),
        "",
    ]


def _cellwise(text: str) -> str:
    return text.replace("|", r"\|")
