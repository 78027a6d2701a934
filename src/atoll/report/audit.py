"""What leaves a site, for people: a table and sentences, and a page over all methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from atoll.experiment.audit import Audit, Crossing
from atoll.experiment.trial import CLASSES, FEATURES
from atoll.report.tables import size

_PAGE_HEAD = f"""# What leaves a site

For every method, as it is set by default: what its sites send to the server, what they get, and
what never leaves them. The tables are read off the ledger of a trial: a few rounds of the method
itself, on four small built-in parties with {FEATURES} features and {CLASSES} classes, later phases
brought forward. So they say what the code does, not what it is meant to do. Shapes follow your data
and model; where they differ between sites or rounds the table says *varies*. For your own:

    atoll audit --method fed-gnn                             # before any run, small parties
    atoll audit --method fed-gnn --data cora --clients 10    # before any run, your data
    atoll audit runs/20260101-120000-fed-gnn-cora            # what crossed in a run

*Every site's* means that the server sees each reply; *sum only* that it needs their weighted sum
and nothing else, so that replies can be hidden by secure aggregation. Scores belong to the
experiment: they say how well a model does, and a run keeps them per client.

A site stops what its method declares private, whatever the server asks for. What does leave may
still tell something about it: a model that was trained on data depends on the data.

This page is written by `atoll audit --page docs/what-leaves-a-site.md`, and a test holds it against
the code.
"""


def audit_shown(audit: Audit) -> Group:
    """One row per tensor: what leaves first, then what comes back; then what it means."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "step", "name", "shape", "server sees", "rounds"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for heading in ("per round", "in all"):
        table.add_column(heading, justify="right")
    for c in _ordered(audit):
        table.add_row(
            _way(c),
            c.step,
            _named(c),
            c.shape,
            _seen(c),
            _rounds(c, audit.rounds),
            size(round(c.bytes_per_round)),
            size(c.bytes),
        )
    title = Text(f"{audit.method.registered_name}: {_source(audit)}", style="bold")
    return Group(title, Text(), table, Text(), *(Text(line) for line in sentences(audit)))


def audit_rows(audit: Audit) -> list[list[str]]:
    """One row per tensor: way, step, name, shape, what the server sees, rounds, bytes."""
    return [
        [_way(c), c.step, _named(c), c.shape, _seen(c), _rounds(c, audit.rounds), size(c.bytes)]
        for c in _ordered(audit)
    ]


def audit_page(audits: Iterable[Audit]) -> str:
    """A page with one table per method."""
    return "\n".join([_PAGE_HEAD, *(_section(audit) for audit in audits)])


def sentences(audit: Audit) -> list[str]:
    """What the table means: whether sums suffice, what is needed, what never leaves."""
    lines = [_verdict(audit)]
    scores = sorted({c.step for c in audit.leaving if c.use == "score" and c.each})
    if scores:
        lines.append(f"Scores of every site are seen in: {', '.join(scores)}.")
    if audit.method.needs_anchors:
        lines.append(
            "Anchors are needed: before the first round sites that hold the same entities learn "
            "which ones; the server gets numbers for them, never ids."
        )
    if audit.method.needs_network:
        lines.append("The network is needed: the server learns which sites' entities are linked.")
    if audit.method.only_simulated:
        lines.append(f"As it is set up it can be simulated only: {audit.method.only_simulated}")
    private = (f"{name} ({why})" for name, why in audit.never_leaves.items())
    if audit.never_leaves:
        lines.append(f"Never leaves a site: {'; '.join(private)}.")
    if audit.unread:
        lines.append(
            f"What it declares private is not known here: looking at a run does not load its "
            f"plug-in. To see that: atoll audit --method {audit.unread}"
        )
    if audit.hurried:
        lines.append(
            "Its later phases are brought forward here; in a run they come when it is time, or "
            "never."
        )
    if audit.not_performed:
        steps = ", ".join(audit.not_performed)
        lines.append(
            f"Not performed in these {audit.rounds} rounds, but with other options or later: "
            f"{steps}."
        )
    return lines


def _verdict(audit: Audit) -> str:
    if audit.method.pooled:
        return "All data is pooled in one place: nothing stays at a site. It can be simulated only."
    content = [c for c in audit.leaving if c.use != "score"]
    if audit.sums_suffice is None:
        return "Whether sums suffice is not on record: the run was made by an older Atoll."
    if not content:
        return "Nothing but scores leaves a site."
    if audit.sums_suffice:
        if any(c.name == "secure/masked" for c in content):
            return "Sums were secure: of all but scores the server saw masked numbers and keys."
        return "Sums suffice: all but scores can run under secure aggregation."
    seen = audit.seen_one_by_one
    kinds = ", ".join(sorted({c.kind for c in seen}))
    steps = ", ".join(dict.fromkeys(c.step for c in seen))
    return f"Sums do not suffice: the server sees every site's {kinds} (in: {steps})."


def _source(audit: Audit) -> str:
    counts = f"{audit.clients} client{'s' * (audit.clients != 1)}, {audit.rounds} rounds"
    if audit.source == "run":
        return f"what crossed in a run of {counts}"
    if audit.source == "trial":
        return f"what crosses in a trial on your data, {counts}"
    return (
        f"what crosses in a trial on small built-in parties, {counts}, {FEATURES} features, "
        f"{CLASSES} classes; with --data the shapes and bytes are those of your data"
    )


def _ordered(audit: Audit) -> Sequence[Crossing]:
    return sorted(audit.crossings, key=lambda c: c.direction == "down")


def _way(c: Crossing) -> str:
    return "leaves" if c.direction == "up" else "comes in"


def _named(c: Crossing) -> str:
    marked = {
        "score": f"{c.name} (score)",
        "weight": "weight (of the site)",
        "key": f"{c.name} (of secure sums)",
    }
    return marked.get(c.use, c.name)


def _marked(c: Crossing) -> str:
    name, *rest = _named(c).split(" ", 1)
    return " ".join([f"`{name}`", *rest])


def _seen(c: Crossing) -> str:
    if c.direction == "down":
        return ""
    return "not recorded" if c.each is None else "every site's" if c.each else "sum only"


def _rounds(c: Crossing, rounds: int) -> str:
    if c.rounds == rounds:
        return "every"
    since = f", from {c.first_round}" if c.first_round > 1 else ""
    return f"{c.rounds} of {rounds}{since}"


def _section(audit: Audit) -> str:
    rows = [
        f"| {_way(c)} | {c.step} | {_marked(c)} | {_fixed(c)} | {_seen(c)} | "
        f"{_rounds(c, audit.rounds)} |"
        for c in _ordered(audit)
    ]
    return "\n".join(
        [
            f"## {audit.method.registered_name}",
            "",
            *(f"{'' if i == 0 else '- '}{line}" + "\n" * (i == 0)
              for i, line in enumerate(sentences(audit))),
            "",
            "| | step | name | shape, bytes per site and time | server sees | rounds |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )  # fmt: skip


def _fixed(c: Crossing) -> str:
    """The shape and bytes where they are always the same."""
    if c.bytes_per_message is None or " to " in c.shape:
        return f"varies ({c.dtype})"
    return f"{c.shape} {c.dtype}, {c.bytes_per_message:,} B"
