"""Critical-difference diagrams: mean ranks on a line, what does not differ joined by a bar."""

from __future__ import annotations

import math
from pathlib import Path

from atoll.comparison.ranks import Ranking
from atoll.report.plots import pyplot, save

_LINE = 0.32  # the height of a label, in inches


def draw_ranks(found: Ranking, path: Path) -> None:
    """The best rank is on the left; half of the labels stand on either side."""
    plt = pyplot()
    ordered = sorted(zip(found.mean, found.columns, strict=True))
    k, groups = len(ordered), found.groups()
    below = 0.5 + 0.25 * len(groups)
    half = math.ceil(k / 2)
    height = 0.9 + _LINE * (below + half)
    figure, axes = plt.subplots(figsize=(7.0, height), layout="constrained")
    axes.set(xlim=(1 - 0.45 * (k - 1), k + 0.45 * (k - 1)), ylim=(-(below + half), 2.0))
    axes.set_axis_off()
    axes.plot([1, k], [0, 0], color="black", linewidth=1)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, 0.15], color="black", linewidth=1)
        axes.text(rank, 0.25, str(rank), ha="center", va="bottom", fontsize=8)
    for i, (mean, name) in enumerate(ordered):
        left = i < half
        level = -(below + (i if left else k - 1 - i))
        edge = 1 - 0.06 * (k - 1) if left else k + 0.06 * (k - 1)
        axes.plot([mean, mean, edge], [0, level, level], color="0.35", linewidth=0.8)
        axes.text(
            edge, level, f" {name} ({mean:.2f}) ", ha="right" if left else "left", va="center",
            fontsize=8,
        )  # fmt: skip
    for i, (low, high) in enumerate(groups):
        level = -0.3 - 0.25 * i
        axes.plot([low - 0.03, high + 0.03], [level, level], color="black", linewidth=3)
    if found.critical is not None:
        end = 1 + min(found.critical, k - 1)
        axes.plot([1, end], [1.3, 1.3], color="black", linewidth=1.5)
        axes.text((1 + end) / 2, 1.4, f"critical difference {found.critical:.2f}", ha="center",
                  va="bottom", fontsize=8)  # fmt: skip
    save(figure, path)
