"""From kept measurements to the tables of a page, between its marks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atoll.errors import AtollError

Record = Mapping[str, Any]
SIDES = {"openfgl": "OpenFGL", "pyg": "PyG loop", "atoll": "Atoll"}
# Accuracies that differ by more are marked: they call for an explanation.
AGREE = 0.03
# A process that had its core to itself takes as long by the clock as by the CPU.
_BUSY = 1.15


def with_table(page: str, mark: str, lines: Sequence[str]) -> str:
    """The page with other lines between the two marks of this name."""
    first, last = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, found, rest = page.partition(first)
    _, ended, after = rest.partition(last)
    if not (found and ended):
        raise AtollError(f"the page has no '{first}' with '{last}' after it; add both.")
    return "\n".join([before + first, "", *lines, "", last + after])


def times(record: Record, side: str, threads: int) -> list[float]:
    """Milliseconds per round of each block: of CPU on one thread, by the clock on two."""
    clock = "cpu" if threads == 1 else "wall"
    blocks = record["sides"].get(side, {}).get("blocks", ())
    return [1e3 * b[clock] / b["rounds"] for b in blocks if b["threads"] == threads]


def accuracy(record: Record, side: str) -> float | None:
    """The test accuracy of the round with the best validation accuracy, of one-thread rounds."""
    blocks = record["sides"].get(side, {}).get("blocks", ())
    scores = [tuple(score) for b in blocks if b["threads"] == 1 for score in b["scores"]]
    return max(scores, key=lambda score: score[0])[1] if scores else None


def was_busy(record: Record) -> bool:
    """Whether something else ran beside the one-thread rounds."""
    blocks = [b for side in record["sides"].values() for b in side["blocks"] if b["threads"] == 1]
    return statistics.median(b["wall"] / b["cpu"] for b in blocks) > _BUSY


def rounds_table(records: Iterable[Record]) -> list[str]:
    """One row per case and number of threads.

    Two threads are measured by the clock, which says nothing of a machine that was busy: no row.
    """
    head = ("federation", "method", "threads", *(f"{name}, ms" for name in SIDES.values()),
            "OpenFGL / Atoll", "PyG / Atoll", "accuracy: OpenFGL, PyG, Atoll")  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 3) + "---|"]
    for record in records:
        for threads in (1,) if was_busy(record) else (1, 2):
            found = {side: times(record, side, threads) for side in SIDES}
            cells = [record["federation"], record["method"] + marks(record), str(threads)]
            cells += [spread(found[side]) for side in SIDES]
            cells += [ratio(found[side], found["atoll"]) for side in ("openfgl", "pyg")]
            cells.append(accuracies(record) if threads == 1 else "")
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def generator_table(records: Iterable[Record]) -> list[str]:
    """One row per case that has generators: seconds per step of all of them, and memory."""
    head = ("federation", "OpenFGL, s", "Atoll, s", "OpenFGL / Atoll", "OpenFGL, GB", "Atoll, GB")
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for record in records:
        steps = {s: record["sides"][s]["generator"] for s in record["sides"]}
        if not any(steps.values()):
            continue
        found = {s: [1e3 * step["cpu"] for step in steps.get(s, ())] for s in ("openfgl", "atoll")}
        cells = [record["federation"] + marks(record)]
        cells += [spread([ms / 1e3 for ms in found[s]], 3) for s in found]
        cells.append(ratio(found["openfgl"], found["atoll"]))
        cells += [f"{max((t['peak_gb'] for t in steps.get(s, ())), default=0):.2f}" for s in found]
        lines.append("| " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else []


def marks(record: Record) -> str:
    """What a reader of a row must know of how it was measured."""
    return " (b)" * was_busy(record) + " (s)" * record.get("short", False)


def origins(records: Iterable[Record]) -> list[str]:
    """What the figures were measured with, one sentence per combination of versions and machine."""
    found: dict[str, list[str]] = {}
    for record in records:
        versions = {k: v for side in record["sides"].values() for k, v in side["versions"].items()}
        named = ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
        on = record["machine"]
        where = f"Python {on['python']}, {on['cpu']}, {on['cores']} cores"
        found.setdefault(f"{named}; {where}", []).append(record["taken"])
    return [
        f"Measured with {what}; {min(taken)}{f' to {max(taken)}' if len(taken) > 1 else ''}."
        for what, taken in found.items()
    ]


def spread(found: Sequence[float], digits: int = 1) -> str:
    """The median, and the least and the most."""
    if not found:
        return ""
    middle, least, most = statistics.median(found), min(found), max(found)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def ratio(slow: Sequence[float], fast: Sequence[float]) -> str:
    if not (slow and fast):
        return ""
    return f"**{statistics.median(slow) / statistics.median(fast):.1f}**"


def accuracies(record: Record) -> str:
    """Percent, side by side; marked where they differ by too much."""
    found = {side: accuracy(record, side) for side in SIDES}
    known = [value for value in found.values() if value is not None]
    mark = " (d)" if max(known) - min(known) > AGREE else ""
    return ", ".join("" if v is None else f"{100 * v:.1f}" for v in found.values()) + mark
