"""Small tables as notebooks show them; all text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A title and a table; without rows the title alone."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<p><strong>{escape(title)}</strong></p>{table}"
