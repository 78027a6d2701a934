"""What a reader of an exported model must know of where it comes from."""

from __future__ import annotations

import polars
import tomli_w

from atoll.experiment.config import describe
from atoll.experiment.tables import read_own
from atoll.inference.kept import Kept

_NOT_TOLD = ("nodes", "edges", "folder", "path")


def card(kept: Kept, position: int, shared: bool) -> str:
    """The card of one client's model, as Markdown."""
    e, graph = kept.experiment, kept.graphs[position]
    whose = "every client's model" if shared else f"the model of {kept.names[position]}"
    lines = [
        f"# {e.method.model.registered_name}, {whose}",
        "",
        _which_round(kept),
        "",
        "| | |",
        "|---|---|",
        f"| classes | {', '.join(kept.class_names)} |",
        f"| features | {graph.features} |",
        f"| nodes of this client | {graph.nodes}, of which {int(graph.train.sum())} trained on |",
        *_reported(kept, position),
        f"| seed | {e.run.seed} |",
        "",
        "## What left the clients",
        "",
        *_what_left(kept),
        "",
        "## Settings",
        "",
        "```toml",
        tomli_w.dumps(_settings(kept)).strip(),
        "```",
        "",
    ]
    if not kept.method.used_kinds:
        lines += [
            f"{e.method.registered_name} changes the graphs that clients train and are scored on; "
            f"the module sees the graph that it is given.",
            "",
        ]
    return "\n".join(lines)


def _which_round(kept: Kept) -> str:
    method, result = kept.experiment.method.registered_name, kept.result
    if result is None:
        return (
            f"Trained with Atoll by {method} at this site, in the run {kept.folder.name} of a "
            f"federation; these are the parameters of round {kept.round}, by which the coordinator "
            f"remembers the run. How all sites scored is in the coordinator's run directory."
        )
    return (
        f"Trained with Atoll by {method} among {result.clients} clients; these are the parameters "
        f"of round {result.best_round} of {result.figures['rounds']:.0f}, the one with the best "
        f"mean validation {result.metric}, and the one that is reported."
    )


def _reported(kept: Kept, position: int) -> list[str]:
    """What the run reports, as far as it is known here."""
    result, e = kept.result, kept.experiment
    if result is None:
        return []
    metric = result.metric
    own = next(c for c in result.per_client if c["client"] == kept.numbers[position])
    return [
        f"| data | {e.data.registered_name}, cut by {e.partition.registered_name} |",
        f"| test {metric} of this client | {_shown(own[f'test_{metric}'], metric)} |",
        f"| test {metric}, mean over clients | {_shown(result.test_score, metric)} |",
        f"| validation {metric}, mean over clients | {_shown(result.val_score, metric)} |",
    ]


def _what_left(kept: Kept) -> list[str]:
    """What went up, by step and kind, and what never may."""
    path = kept.folder / "ledger.parquet"
    never = ", ".join(sorted(kept.experiment.method.private))
    closing = f"Kinds that may never leave a client under this method: {never}."
    if not path.is_file():
        where = "The run kept no ledger of what left."
        if kept.result is None:
            where = (
                f"The ledger of what left is in the coordinator's run directory; what may leave "
                f"says: atoll audit --method {kept.experiment.method.registered_name}"
            )
        return [where, "", closing]
    up = read_own(path).filter(direction="up")
    if up.is_empty():
        return ["Nothing.", "", closing]
    total = up.group_by("step", "kind").agg(
        polars.col("bytes").sum(), polars.col("round").n_unique().alias("rounds")
    )
    rows = [
        f"| {step} | {kind} | {rounds} | {size:,} |"
        for step, kind, size, rounds in total.sort("step", "kind").iter_rows()
    ]
    return ["| step | kind | rounds | bytes |", "|---|---|---|---|", *rows, "", closing]


def _settings(kept: Kept) -> dict[str, object]:
    """The run's configuration without the places of its files."""
    table = describe(kept.experiment)
    if kept.result is None:  # where a site finds its data, and how it is split, is its own business
        return {k: v for k, v in table.items() if k not in ("data", "split", "partition")}
    data = {k: v for k, v in table["data"].items() if k not in _NOT_TOLD}
    return {**table, "data": data}


def _shown(score: float | None, metric: str) -> str:
    if score is None or score != score:
        return "none"
    return f"{score:.4f}" if metric == "loss" else f"{100 * score:.2f} %"
