"""What a check suggests to train with: a model that fits tables, and what suits a rare class."""

from __future__ import annotations

from typing import Any

import polars

# A class is rare below this share of the training nodes; runs choose their metric by it, too.
RARE = 0.1
# Nodes of a class that leave some for validation however they are drawn.
_ENOUGH = 10

OWN_NUMBERS = (
    "the model is 'sage', which keeps a node's own columns apart from its neighbours'; a 'gcn' "
    "adds them up, so that what one row says is lost among its neighbours (model.name)."
)


def suggested(
    labels: polars.Series, parts: polars.Series | None = None, owners: polars.Series | None = None
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Sections of a config, and why they are suggested, one sentence each.

    ``labels`` are the nodes' classes, null where unknown, ``parts`` what the table says of the
    split. Where it says nothing, training nodes are drawn from all labelled ones. The metric is
    written down, so that a run near the bound does not decide otherwise by the nodes it draws.
    """
    sections: dict[str, dict[str, Any]] = {"model": {"name": "sage"}}
    why = [OWN_NUMBERS]
    known = labels if parts is None else labels.filter((parts == "train").fill_null(False))
    classes = known.drop_nulls().value_counts(sort=True)
    if classes.height < 2:
        return sections, why
    (most, largest), (name, count) = classes.row(0), classes.row(-1)
    total = int(classes["count"].sum())
    if count >= RARE * total:
        return sections, why
    sections["task"] = {"class_weight": "balanced"}
    metric = "pr_auc" if classes.height == 2 else "macro_f1"
    chosen = f"choose rounds by {metric} if validation nodes are of both classes"
    if metric == "macro_f1" or _can_rank(labels, parts, owners):
        sections["run"] = {"metric": metric}
        chosen = f"rounds are chosen by {metric}"
    why.append(
        f"the class '{name}' is rare, {count} of {total} "
        f"{'labelled' if parts is None else 'training'} nodes: always answering '{most}' would "
        f"score {100 * largest / total:.2f} % accuracy, so {chosen} (run.metric), and all classes "
        f"weigh the same in the loss (task.class_weight), or a model learns that answer."
    )
    return sections, why


def _can_rank(
    labels: polars.Series, parts: polars.Series | None, owners: polars.Series | None
) -> bool:
    """Whether some party will have validation nodes of two classes, as scores by rank need."""
    frame = polars.DataFrame({"label": labels}).with_columns(
        (owners if owners is not None else polars.lit("")).alias("owner"),
        (parts if parts is not None else polars.lit("val")).alias("part"),
    )
    there = frame.filter(polars.col("label").is_not_null(), polars.col("part") == "val")
    if parts is None:
        return int(there["label"].value_counts()["count"].min() or 0) >= _ENOUGH  # type: ignore[arg-type]
    found = there.group_by("owner").agg(polars.col("label").n_unique())["label"].max()
    return int(found or 0) > 1  # type: ignore[arg-type]
