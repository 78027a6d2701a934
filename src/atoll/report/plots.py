"""Cells of a recipe as a picture, for papers that draw theirs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atoll.files import write_bytes
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Plot, Recipe, Target

_PANEL = (4.4, 3.4)
_PER_ROW = 3
Pair = tuple["Target", "Cell"]


def draw_recipe(recipe: Recipe, cells: Sequence[Cell], path: Path) -> None:
    """One panel for each group of rows (for each cell, if they are heatmaps)."""
    plt = pyplot()
    plot = recipe.plot
    assert plot is not None
    done = {(cell.row, cell.column): cell for cell in cells}
    pairs = [(t, done[t.row, t.column]) for t in recipe.targets if (t.row, t.column) in done]
    panels = _panels(plot, pairs)
    if not panels:
        return
    columns = min(len(panels), _PER_ROW)
    rows = -(-len(panels) // columns)
    size = (_PANEL[0] * columns, _PANEL[1] * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    drawing = {
        "lines": _lines, "bars": _bars, "boxes": _boxes, "curves": _curves, "heatmaps": _heatmap
    }[plot.kind]  # fmt: skip
    for axes, (title, members) in zip(grid.flat, panels.items(), strict=False):
        drawing(axes, members)
        if plot.every_seed:
            _seeds(axes, members)
        axes.set(title=title, xlabel=plot.x, ylabel=plot.y)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    save(figure, path)


def pyplot() -> Any:
    """matplotlib without a screen.

    Text stays text and nothing depends on the day, so that pictures differ only if numbers do.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "atoll"})
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, path: Path) -> None:
    """Write a figure as its file's ending says, svg or pdf, and close it."""
    picture = io.BytesIO()
    dated = {".svg": "Date", ".pdf": "CreationDate"}[path.suffix]
    figure.savefig(picture, format=path.suffix[1:], metadata={dated: None})
    pyplot().close(figure)
    write_bytes(path, picture.getvalue())


def _panels(plot: Plot, pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """What belongs into one set of axes, by title."""
    panels: dict[str, list[Pair]] = {}
    for target, cell in pairs:
        title = target.panel
        if plot.kind == "curves":
            title = title or target.row
        elif plot.kind == "heatmaps":
            if cell.array is None:
                continue
            title = f"{target.row}: {target.column}"
        panels.setdefault(title, []).append((target, cell))
    return panels


def _series(members: Sequence[Pair]) -> dict[str, list[Pair]]:
    series: dict[str, list[Pair]] = {}
    for target, cell in members:
        series.setdefault(target.column, []).append((target, cell))
    return series


def _lines(axes: Any, members: Sequence[Pair]) -> None:
    """One line per column with its std as a band, one place on the x axis per row."""
    names = list(dict.fromkeys(t.row for t, _ in members))
    for column, pairs in _series(members).items():
        x = _places(names, pairs)
        order = np.argsort(x)
        ours = np.array([c.ours for _, c in pairs])[order]
        std = np.array([c.std for _, c in pairs])[order]
        axes.plot(x[order], ours, marker="o", markersize=3, label=column)
        axes.fill_between(x[order], ours - std, ours + std, alpha=0.15)
    if all(t.x is None for t, _ in members):
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize="small")
    axes.legend(fontsize="x-small")


def _places(names: Sequence[str], pairs: Sequence[Pair]) -> np.ndarray:
    """Where on the x axis each row is."""
    return np.array([names.index(t.row) if t.x is None else t.x for t, _ in pairs], dtype=float)


def _seeds(axes: Any, members: Sequence[Pair]) -> None:
    """Every seed's value as a dot, beside the mean of its cell."""
    names = list(dict.fromkeys(t.row for t, _ in members))
    for line, pairs in zip(axes.get_lines(), _series(members).values(), strict=True):
        x = np.repeat(_places(names, pairs), [len(cell.values) for _, cell in pairs])
        y = np.concatenate([cell.values for _, cell in pairs])
        axes.scatter(x, y, s=6, color=line.get_color(), alpha=0.5)


def _bars(axes: Any, members: Sequence[Pair]) -> None:
    """One group of bars per row, with one bar per column."""
    names = list(dict.fromkeys(t.row for t, _ in members))
    series = _series(members)
    width = 0.8 / len(series)
    for i, (column, pairs) in enumerate(series.items()):
        x = [names.index(t.row) + (i - (len(series) - 1) / 2) * width for t, _ in pairs]
        error = [c.std for _, c in pairs]
        axes.bar(x, [c.ours for _, c in pairs], width, yerr=error, capsize=2, label=column)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize="small")
    lowest = min(c.ours - c.std for _, c in members)
    axes.set_ylim(bottom=max(0.0, lowest - 5.0))
    axes.legend(fontsize="x-small")


def _boxes(axes: Any, members: Sequence[Pair]) -> None:
    """The values over seeds of every cell."""
    rows = {t.row for t, _ in members}
    labels = [t.column if len(rows) == 1 else f"{t.row} {t.column}" for t, _ in members]
    axes.boxplot([c.values for _, c in members], tick_labels=labels)
    axes.tick_params(axis="x", rotation=30, labelsize="small")


def _curves(axes: Any, members: Sequence[Pair]) -> None:
    """One line over rounds per column, mean over clients and seeds."""
    for target, cell in members:
        if cell.array is not None:
            axes.plot(range(1, len(cell.array) + 1), cell.array, linewidth=1, label=target.column)
    axes.legend(fontsize="x-small")


def _heatmap(axes: Any, members: Sequence[Pair]) -> None:
    [(_, cell)] = members
    image = axes.imshow(np.array(cell.array), cmap="Blues")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
