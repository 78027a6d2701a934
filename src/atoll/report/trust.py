"""What a site's policy says to a method, and what the record of a run is worth, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from atoll.deploy.evidence.verify import Verdict
from atoll.deploy.policy.judging import Line, passes
from atoll.report.tables import size

_SHOWN = 20
_MARKS = {True: "passes", False: "fails", None: "open"}


def policy_shown(method: str, policy: str, lines: Sequence[Line]) -> Group:
    """Which lines pass and which fail, and why."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "line", "why"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "why")
    for line in lines:
        table.add_row(*(Text(cell) for cell in (_MARKS[line.passed], line.rule, line.why)))
    failing = sum(line.passed is False for line in lines)
    verdict = (
        f"This site takes part in {method}."
        if passes(lines)
        else f"This site refuses {method}; lines of its policy that fail: {failing}."
    )
    return Group(
        Text(f"{method} under {policy}", style="bold"), Text(), table, Text(), Text(verdict)
    )


def evidence_shown(verdict: Verdict) -> Group:
    """Whether the record of a run's messages is whole, and what is wrong if it is not."""
    if verdict.problems:
        found = [Text(f"  {problem}") for problem in verdict.problems[:_SHOWN]]
        more = len(verdict.problems) - len(found)
        rest = [Text(f"  and {more} more")] if more else []
        return Group(Text(), Text("The record of messages is not whole:"), *found, *rest)
    signed = "; ".join(
        f"{site} up to round {last}" if last >= 0 else f"{site} not at all"
        for site, last in verdict.countersigned.items()
    )
    lines = [
        f"The record of messages is whole: {verdict.messages} answers, {size(verdict.bytes)}"
        f"{'' if verdict.closed else '; the run is not complete, so neither is its record'}.",
        f"Countersigned: {signed}." if signed else "Nobody has countersigned it yet.",
    ]
    if verdict.compared:
        lines.append(f"It agrees with the sites' own: {', '.join(verdict.compared)}.")
    else:
        lines.append("Hold it against a site's own record with --site STATE_DIR.")
    return Group(Text(), *(Text(line) for line in lines))
