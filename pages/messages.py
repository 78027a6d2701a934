"""A drawing of what crosses between server and sites, from the ledger of a trial run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from atoll.experiment.audit import Audit, Crossing

_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _ARROW = 720, 130, 590, 62, 26, 30
_INK, _SOFT, _PAPER, _DOWN, _UP = "#1b1f24", "#57606a", "#ffffff", "#0072b2", "#b34700"


@dataclass(frozen=True)
class _Arrow:
    """One way of a step: what crosses, in words."""

    up: bool
    text: str
    dashed: bool


def drawn_messages(audit: Audit) -> str:
    """An SVG: the steps of a round in their order, what the server sends and what it sees."""
    name = audit.method.registered_name
    parts: list[str] = []
    y = _TOP + 14
    for step, often, arrows in _steps(audit):
        parts.append(_text((_LEFT + _RIGHT) / 2, y, f"{step}, {often}", weight="600"))
        y += _STEP
        for arrow in arrows:
            parts += _arrow(arrow, y)
            y += _ARROW
        y += 8
    if not parts:
        words = "all data is in one place" if audit.method.pooled else "nothing is sent"
        parts.append(_text((_LEFT + _RIGHT) / 2, y, words, fill=_SOFT))
        y += _STEP
    height = y + 4
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="14">',
            f"<title>Messages of {escape(name)}</title>",
            f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="{_PAPER}"/>',
            *_lane(_LEFT, "server", height),
            *_lane(_RIGHT, "every site", height),
            *parts,
            "</svg>",
            "",
        ]
    )


def _steps(audit: Audit) -> Iterator[tuple[str, str, list[_Arrow]]]:
    """Steps in the order in which they first cross, each with its arrows."""
    for step in dict.fromkeys(c.step for c in audit.crossings):
        those = [c for c in audit.crossings if c.step == step]
        arrows = [_of(those, up=False), _of(those, up=True)]
        yield step, _often(those, audit), [arrow for arrow in arrows if arrow is not None]


def _of(crossings: Sequence[Crossing], up: bool) -> _Arrow | None:
    those = [c for c in crossings if (c.direction == "up") == up]
    if not those:
        return None
    if all(c.use == "score" for c in those):
        return _Arrow(up, "scores" + _seen(those), dashed=True)
    kinds = dict.fromkeys("scores" if c.use == "score" else c.kind for c in those)
    return _Arrow(up, ", ".join(kinds) + _seen(those), dashed=False)


def _seen(those: Sequence[Crossing]) -> str:
    if those[0].direction == "down":
        return ""
    return " (every site's)" if any(c.each for c in those) else " (their sum)"


def _often(those: Sequence[Crossing], audit: Audit) -> str:
    rounds, first = max(c.rounds for c in those), min(c.first_round for c in those)
    if rounds == audit.rounds:
        return "every round"
    if first == audit.rounds and not audit.hurried:
        return "at the end"
    if first > 1:
        return "in a later phase"
    return "once" if rounds == 1 else "in the first rounds"


def _lane(x: int, name: str, height: float) -> list[str]:
    return [
        f'<line x1="{x}" x2="{x}" y1="44" y2="{height - 10}" stroke="{_SOFT}" '
        f'stroke-dasharray="3 4"/>',
        f'<rect x="{x - 62}" y="14" width="124" height="30" rx="6" fill="#f1f5f9" '
        f'stroke="{_SOFT}"/>',
        _text(x, 34, name, weight="600"),
    ]


def _arrow(arrow: _Arrow, y: float) -> list[str]:
    colour = _UP if arrow.up else _DOWN
    tail, head = (_RIGHT - 4, _LEFT + 4) if arrow.up else (_LEFT + 4, _RIGHT - 4)
    wing = 9 if arrow.up else -9
    dashes = ' stroke-dasharray="6 4"' if arrow.dashed else ""
    return [
        _text((_LEFT + _RIGHT) / 2, y - 6, arrow.text, fill=colour),
        f'<line x1="{tail}" x2="{head}" y1="{y}" y2="{y}" stroke="{colour}" '
        f'stroke-width="2"{dashes}/>',
        f'<path d="M{head} {y}l{wing} -5v10z" fill="{colour}"/>',
    ]


def _text(x: float, y: float, text: str, fill: str = _INK, weight: str = "400") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="{fill}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )
