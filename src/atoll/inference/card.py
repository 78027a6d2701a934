"""What a reader of an exported model must know of where it comes from."""

from __future__ import annotations

import polars
import tomli_w

from atoll.experiment.config import describe
from atoll.experiment.tables import read_parquet
from atoll.inference.kept import Kept

_NOT_TOLD = ("nodes", "edges", "folder", "path")


def card(kept: Kept, position: int, shared: bool) -> str:
    """The card of one client's model, as Markdown."""
    result, e = kept.result, kept.experiment
    metric, best = result.metric, result.best_round
    own = next(c for c in result.per_client if c["client"] == kept.numbers[position])
    whose = "every client's model" if shared else f"the model of {kept.names[position]}"
    lines = [
        f"# {e.method.model.registered_name}, {whose}",
        "",
        f"Trained with Atoll by {e.method.registered_name} among {result.clients} clients; these "
        f"are the parameters of round {best} of {result.figures['rounds']:.0f}, the one with the "
        f"best mean validation {metric}, and the one that is reported.",
        "",
        "| | |",
        "|---|---|",
        f"| data | {e.data.registered_name}, cut by {e.partition.registered_name} |",
        f"| classes | {', '.join(kept.class_names)} |",
        f"| features | {kept.graphs[0].features} |",
        f"| nodes of this client | {own['nodes']}, of which {own['train_nodes']} trained on |",
        f"| test {metric} of this client | {_shown(own[f'test_{metric}'], metric)} |",
        f"| test {metric}, mean over clients | {_shown(result.test_score, metric)} |",
        f"| validation {metric}, mean over clients | {_shown(result.val_score, metric)} |",
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


def _what_left(kept: Kept) -> list[str]:
    """What went up, by step and kind, and what never may."""
    path = kept.result.run_dir / "ledger.parquet"
    never = ", ".join(sorted(kept.experiment.method.private))
    closing = f"Kinds that may never leave a client under this method: {never}."
    if not path.is_file():
        return ["The run kept no ledger of what left.", "", closing]
    up = read_parquet(path).filter(direction="up")
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
    data = {k: v for k, v in table["data"].items() if k not in _NOT_TOLD}
    return {**table, "data": data}


def _shown(score: float | None, metric: str) -> str:
    if score is None or score != score:
        return "none"
    return f"{score:.4f}" if metric == "loss" else f"{100 * score:.2f} %"
