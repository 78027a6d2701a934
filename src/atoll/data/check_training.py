"""What a check suggests to train with: a model that fits tables, and weights for a rare class."""

from __future__ import annotations

from typing import Any

import polars

# A class is rare below this share of the labelled nodes, as it is where a run chooses its metric.
RARE = 0.1

OWN_NUMBERS = (
    "the model is 'sage', which keeps a node's own columns apart from its neighbours'; a 'gcn' "
    "adds them up, so that what one row says is lost among its neighbours (model.name)."
)


def suggested(classes: polars.DataFrame) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Sections of a config, and why they are suggested, one sentence each.

    ``classes`` has the classes' names and counts, the largest first.
    """
    sections: dict[str, dict[str, Any]] = {"model": {"name": "sage"}}
    why = [OWN_NUMBERS]
    name, count = classes.row(-1)
    total = int(classes["count"].sum())
    if classes.height > 1 and count < RARE * total:
        sections["task"] = {"class_weight": "balanced"}
        why.append(
            f"the class '{name}' is rare, {count} of {total} labelled nodes: accuracy says little "
            f"(run.metric), and without weights a model learns to answer '{classes.row(0)[0]}' "
            f"always, so all classes weigh the same in the loss (task.class_weight)."
        )
    return sections, why
