"""What a reader of a run's scores should know, said at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars

from atoll.experiment.config import Experiment
from atoll.experiment.history import Best, History
from atoll.graph import SPLITS

_MOST = 5


def notes_on(
    experiment: Experiment,
    history: History,
    best: Best,
    figures: Mapping[str, float],
    names: Sequence[str] = (),
    sizes: Sequence[tuple[int, int]] = (),
) -> tuple[str, ...]:
    """One sentence each; none where there is nothing to say. ``names`` are the clients', ``sizes``
    how many nodes each has and how many of them train."""
    method = experiment.method.registered_name
    found = [f"{method}: {said}" for said in experiment.method.task.remarks(sizes)]
    missed = best.over_all.get("never_predicted")
    if missed:
        which = f"class {_some(missed)}" if len(missed) == 1 else f"classes {_some(missed)}"
        found.append(
            f"{method}: the model never predicts the {which}, which some test nodes have; see "
            f"task.class_weight = 'balanced' and metrics that need no threshold, as pr_auc."
        )
    single = _of_one_class(best.scores)
    if single:
        clients = _some([names[c] if c < len(names) else f"client {c}" for c in single])
        found.append(
            f"{method}: the test nodes of {clients} are all of one class, so that there is no "
            f"ROC-AUC or PR-AUC there."
        )
    scored = history.table()["round"].unique()
    if len(scored) > 1 and best.round == scored.min():
        found.append(
            f"{method}: the best round by validation {history.metric} is the first one that was "
            f"scored ({best.round}), so that further training did not help; try another "
            f"optimizer.lr or run.metric."
        )
    late = experiment.method.complete_after
    if 0 < figures.get(late, 0) >= best.round:
        found.append(
            f"{method}: the best round by validation {history.metric} ({best.round}) comes before "
            f"what the method is for is done (after round {figures[late]:.0f}), so that its scores "
            f"are of models without it; the history has the rounds after it."
        )
    return tuple(found)


def _of_one_class(scores: polars.DataFrame) -> list[int]:
    """Clients that have test nodes, but no ROC-AUC."""
    made = [f"{split}_roc_auc" for split in SPLITS]
    if made[0] not in scores.columns or all(scores[name].is_null().all() for name in made):
        return []  # nobody was ranked
    single = polars.col("test_accuracy").is_not_null() & polars.col("test_roc_auc").is_null()
    return scores.filter(single)["client"].to_list()


def _some(names: list[str]) -> str:
    """The first few of a list, in words."""
    shown = names[:_MOST]
    if len(names) > _MOST:
        return f"{', '.join(shown)} and {len(names) - _MOST} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
