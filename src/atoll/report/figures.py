"""One picture about runs, by its kind: what ``atoll plot`` and ``Result.plot`` draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atoll.comparison.plan import ALONE
from atoll.errors import AtollError
from atoll.options import not_a_choice
from atoll.report import facts_scores as scores
from atoll.report.facts import communication as bytes_by_kind
from atoll.report.sources import Group, read_groups
from atoll.report.style import COLOURS, DASHES, MARKS, save, styled
from atoll.report.tables import size
from atoll.tasks.metrics import LOSS

__all__ = ["KINDS", "draw", "draw_group", "save"]
_WIDE, _HIGH = 6.2, 3.6


def draw(folders: Sequence[Path], kind: str) -> Any:
    """A matplotlib figure of runs or of a comparison on one federation."""
    groups = read_groups(folders)
    if len(groups) > 1:
        raise AtollError(
            f"'{groups[0].origin}' and '{groups[1].origin}' are about different data, split, "
            f"partition or task and can't share a picture; draw one for each."
        )
    return draw_group(groups[0], kind)


def draw_group(group: Group, kind: str) -> Any:
    """A figure that belongs to no window, so that nothing has to be closed."""
    from matplotlib.figure import Figure

    if kind not in KINDS:
        raise not_a_choice("kind", kind, tuple(KINDS))
    with styled():
        figure = Figure(figsize=(_WIDE, _HIGH), layout="constrained")
        KINDS[kind](figure, group)
    return figure


def _convergence(figure: Any, group: Group) -> None:
    """Test scores over rounds, one line per method, from the lowest seed to the highest as band."""
    found = scores.convergence_facts(group)
    if not found:
        raise AtollError(f"'{group.origin}' has no scored round yet; wait for its first one.")
    axes, column = figure.subplots(), f"test_{group.metric}"
    for i, (label, line) in enumerate(found.items()):
        y = _scaled(group, line["means"][column])
        axes.plot(line["rounds"], y, color=_colour(i), linestyle=DASHES[i % 8], label=label)
        if line["spread"]:
            low, high = (_scaled(group, line["spread"][end]) for end in ("low", "high"))
            axes.fill_between(line["rounds"], low, high, color=_colour(i), alpha=0.15, linewidth=0)
    axes.set(xlabel="round", ylabel=f"test {_unit(group)}", title=_title(group))
    axes.legend()


def _clients(figure: Any, group: Group) -> None:
    """Every client's test score, one mark per method."""
    found = scores.clients_facts(group)
    if not found:
        raise AtollError(
            f"'{group.origin}' has no scores of single clients (its methods pool all data); draw a "
            f"run of a federated method, e.g. fed-avg."
        )
    axes = _rows(figure, group)
    for i, (label, values) in enumerate(found.items()):
        axes.scatter(
            _scaled(group, values), range(len(values)), color=_colour(i), marker=MARKS[i % 8],
            s=22, label=label, zorder=3,
        )  # fmt: skip
    axes.set(xlabel=f"test {_unit(group)}", title=_title(group))
    figure.legend(loc="outside right upper")


def _gain(figure: Any, group: Group) -> None:
    """Each client's difference to training alone, with its interval over seeds."""
    found = scores.sites_facts(group)
    if not found:
        raise AtollError(
            f"'{group.origin}' has nothing to hold a joined method against; add a run of "
            f"'{ALONE}' with the same seed, or draw a directory of atoll compare."
        )
    axes = _rows(figure, group)
    step = 0.7 / len(found)
    for i, (label, rows) in enumerate(found.items()):
        y = np.arange(len(rows)) + (i - (len(found) - 1) / 2) * step
        middle, low, high = (
            _scaled(group, [row[name] for row in rows]) for name in ("difference", "low", "high")
        )
        colour = _colour(i + 1)
        axes.hlines(y, low, high, color=colour, alpha=0.6, linewidth=2)
        axes.scatter(
            middle, y, color=colour, marker=MARKS[(i + 1) % 8], s=22, label=label, zorder=3
        )
    axes.axvline(0, color="#444444", linewidth=1)
    points = "" if group.metric == LOSS else ", points"
    axes.set(xlabel=f"test {_name(group)}: difference to {ALONE}{points}", title=_title(group))
    figure.legend(loc="outside right upper")


def _similarity(figure: Any, group: Group) -> None:
    """How alike the server took clients to be: the first round that is kept, a middle, the last."""
    found = scores.similarity_facts(group)
    if not found:
        raise AtollError(
            f"'{group.origin}' keeps no similarities: its methods don't compare clients; draw a "
            f"run of fed-pub or gcfl."
        )
    label, facts = next(iter(found.items()))
    k, last = facts["k"], len(facts["rounds"]) - 1
    chosen = sorted({0, last // 2, last})
    apart = ~np.eye(k, dtype=bool)
    matrices = [np.array(facts["matrices"][i]).reshape(k, k) for i in chosen]
    ends = np.concatenate([m[apart] for m in matrices]) if k > 1 else np.ones(1)
    figure.set_size_inches(2.6 * len(chosen) + 0.8, 3.1)
    panels = np.atleast_1d(figure.subplots(1, len(chosen)))
    low = float(ends.min()) if ends.min() < ends.max() else 0.0
    image = None
    for axes, i, matrix in zip(panels, chosen, matrices, strict=True):
        image = axes.imshow(matrix, cmap="Blues", vmin=low, vmax=float(ends.max()))
        axes.grid(visible=False)
        axes.set_title(f"round {facts['rounds'][i]}", fontsize=9)
        _ticks(axes, [group.name_of(c) for c in range(k)], first=axes is panels[0])
    figure.colorbar(image, ax=list(panels), shrink=0.8)
    figure.suptitle(f"{_title(group)}: similarity, {label}")


def _communication(figure: Any, group: Group) -> None:
    """Bytes by kind, both ways, of one run per method."""
    found = {label: bytes_by_kind(e[0])["kinds"] for label, e in group.methods.items()}
    kinds = list(dict.fromkeys(row["kind"] for rows in found.values() for row in rows))
    if not kinds:
        raise AtollError(
            f"'{group.origin}' has no record of what crossed; finish the run, or run it anew "
            f"with its ledger."
        )
    axes = figure.subplots()
    names = [f"{label}, {way}" for label in found for way in ("up", "down")]
    before = np.zeros(len(names))
    for i, kind in enumerate(kinds):
        amount = [
            next((row[way] for row in rows if row["kind"] == kind), 0)
            for rows in found.values()
            for way in ("up", "down")
        ]
        name = "metric (scores)" if kind == "metric" else kind
        axes.barh(range(len(names)), amount, left=before, color=_colour(i), label=name)
        before += amount
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda value, _: size(round(value)))
    axes.xaxis.set_major_locator(_few())
    axes.set(xlabel="sent in all, one run", title=_title(group))
    figure.legend(loc="outside right upper")


def _confusion(figure: Any, group: Group) -> None:
    """What test nodes are taken for, one panel per method; shares of a row, with counts."""
    found = scores.confusion_facts(group)
    if not found:
        raise _no_classes(group)
    figure.set_size_inches(3.1 * len(found) + 0.6, 3.3)
    panels = np.atleast_1d(figure.subplots(1, len(found)))
    for axes, (label, facts) in zip(panels, found.items(), strict=True):
        counts = np.array(facts["all"])
        share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        axes.grid(visible=False)
        if len(counts) <= 12:
            for r, c in np.ndindex(*counts.shape):
                ink = "white" if share[r, c] > 0.55 else "black"
                axes.text(c, r, counts[r, c], ha="center", va="center", color=ink, fontsize=6.5)
        axes.set_title(label, fontsize=9)
        axes.set_xlabel("taken for")
        _ticks(axes, facts["classes"], first=axes is panels[0])
    panels[0].set_ylabel("is")
    figure.suptitle(f"{_title(group)}: test nodes")


def _pr(figure: Any, group: Group) -> None:
    """Precision over recall: one line per method of two classes, else one panel per method."""
    found = scores.curves_facts(group)
    if not found:
        raise _no_classes(group)
    if all(len(curves) == 1 for curves in found.values()):
        axes = figure.subplots()
        for i, (label, [curve]) in enumerate(found.items()):
            _curve(axes, i, f"{label} ({curve['area']:.3f})", curve)
        share, name = next(iter(found.values()))[0]["share"], next(iter(found.values()))[0]["class"]
        axes.axhline(share, color="#666666", linewidth=0.8)
        axes.set(ylabel="precision", title=f"{_title(group)}: class {name} (area)")
        panels = [axes]
    else:
        figure.set_size_inches(3.1 * len(found) + 0.6, 3.3)
        panels = list(np.atleast_1d(figure.subplots(1, len(found), sharey=True)))
        for axes, (label, curves) in zip(panels, found.items(), strict=True):
            for i, curve in enumerate(curves):
                _curve(axes, i, str(curve["class"]), curve)
            axes.set_title(label, fontsize=9)
        panels[0].set_ylabel("precision")
        figure.suptitle(f"{_title(group)}: each class against all others")
    for axes in panels:
        axes.set(xlabel="recall", xlim=(0, 1), ylim=(0, 1.02))
    lines, names = panels[-1].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside right upper")


def _curve(axes: Any, i: int, label: str, curve: dict[str, Any]) -> None:
    axes.plot(
        curve["recall"], curve["precision"], color=_colour(i), linestyle=DASHES[i % 8], label=label
    )


def _no_classes(group: Group) -> AtollError:
    task = group.first.experiment.method.task.registered_name
    why = (
        "its sites don't send how their nodes are spread over classes"
        if group.deployed
        else f"the task '{task}' has no classes"
        if task != "nodes"
        else "its methods score nodes in their own way, or it was made by an older version"
    )
    return AtollError(
        f"'{group.origin}' keeps no counts of classes: {why}; draw a simulated run of node "
        f"classification, e.g. of fed-avg."
    )


def _rows(figure: Any, group: Group) -> Any:
    """Axes with one row per client."""
    figure.set_size_inches(_WIDE, max(2.2, 0.9 + 0.2 * group.clients))
    axes = figure.subplots()
    names = [_cut(group.name_of(c)) for c in range(group.clients)]
    axes.set_yticks(range(group.clients), names, fontsize=8 if group.clients <= 40 else 5)
    axes.set_ylim(group.clients - 0.5, -0.5)
    return axes


def _ticks(axes: Any, names: Sequence[str], first: bool) -> None:
    every = -(-len(names) // 20)
    places, shown = range(0, len(names), every), [_cut(name) for name in names[::every]]
    axes.set_xticks(places, shown, rotation=90, fontsize=6.5)
    axes.set_yticks(places, shown if first else [], fontsize=6.5)


def _cut(name: str) -> str:
    # A dollar sign would begin a formula.
    short = name if len(name) <= 24 else name[:23] + "…"
    return short.replace("$", r"\$")


def _few() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _scaled(group: Group, values: Sequence[float | None]) -> np.ndarray:
    scale = 1.0 if group.metric == LOSS else 100.0
    return np.array([np.nan if v is None else scale * v for v in values], dtype=float)


def _name(group: Group) -> str:
    return group.metric.replace("_", " ")


def _unit(group: Group) -> str:
    return _name(group) if group.metric == LOSS else f"{_name(group)}, percent"


def _title(group: Group) -> str:
    e = group.first.experiment
    return f"{e.data.registered_name}, {group.clients} clients ({e.partition.registered_name})"


KINDS: dict[str, Callable[[Any, Group], None]] = {
    "convergence": _convergence,
    "clients": _clients,
    "gain": _gain,
    "similarity": _similarity,
    "communication": _communication,
    "confusion": _confusion,
    "pr": _pr,
}
