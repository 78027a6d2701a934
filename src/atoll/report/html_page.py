"""The report as one HTML page that is whole in itself: styles, scripts and facts are inside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from atoll.report.facts import report_facts

_SCRIPTS = ("dom.js", "charts.js", "sections.js", "sections_more.js", "study.js", "main.js")


def report_page(folders: Sequence[Path], with_data: bool = True) -> str:
    """The page about some directories."""
    return page_of(report_facts(folders, with_data))


def page_of(facts: dict[str, Any], live: float = 0) -> str:
    """The page that shows some facts; ``live`` is how many seconds it waits before it asks for
    newer ones, 0: never."""
    style = _part("page.css")
    script = "'use strict';\n(() => {\n" + "\n".join(map(_part, _SCRIPTS)) + "})();\n"
    # Nothing but these very texts may run, and nothing is loaded from anywhere.
    policy = (
        f"default-src 'none'; script-src {_hashed(script)}; style-src {_hashed(style)}; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )
    parts = facts.get("studies") or facts["groups"]
    titles = ", ".join(part["title"] for part in parts)
    return Template(_part("page.html")).substitute(
        policy=html.escape(policy, quote=False),
        title=html.escape(f"Report: {titles}"),
        style=style,
        live=f"{live:g}",
        version=html.escape(facts["atoll"]),
        facts=embedded(facts),
        script=script,
    )


def embedded(facts: Any) -> str:
    """JSON that can stand within a page: no sign in it can end the element that holds it."""
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _part(name: str) -> str:
    return (files("atoll.report") / "page" / name).read_text(encoding="utf-8")


def _hashed(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
