"""What a run leaves behind, as an object, and how it is written to its directory and read back."""

from __future__ import annotations

import json
import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars

from atoll.archive import read_tree, write_tree
from atoll.device import to_numpy
from atoll.experiment.checkpoint import joined
from atoll.experiment.config import Experiment
from atoll.experiment.drawing import drawn
from atoll.experiment.history import History
from atoll.experiment.notes import notes_on
from atoll.experiment.run_dir import CLIENTS
from atoll.experiment.tables import read_own
from atoll.federation.calls import Replies
from atoll.files import damaged, read_json, write_json
from atoll.notebook import html_table
from atoll.tasks.metrics import LOSS
from atoll.tree import Kinds, Tree

log = logging.getLogger("atoll")
_FACTS = (
    "clients",
    "best_round",
    "per_client",
    "figures",
    "seconds_per_round",
    "bytes_up",
    "bytes_down",
    "rejected_replies",
)


class Size(NamedTuple):
    """How large a client's graph is."""

    nodes: int
    train: int


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run. Scores are fractions; the test figure is that of ``best_round``.

    ``figures`` has every number of the run by name: the scores of the best round
    (``test_accuracy``, ``val_loss``, ...) and what the method concluded with, as means over
    clients; ``bytes_up``, ``bytes_down``, ``megabytes`` both ways, ``rounds`` and ``best_round``.
    """

    experiment: Experiment
    clients: int
    best_round: int
    per_client: list[dict[str, Any]]
    figures: dict[str, float]
    seconds_per_round: float
    bytes_up: int
    bytes_down: int
    rejected_replies: int
    run_dir: Path
    history: polars.DataFrame
    parameters: Tree
    metric: str
    # Test scores of all clients' nodes together; more than accuracy and loss in simulations only.
    over_all: dict[str, float | None] = field(default_factory=dict)
    # What the reader should know of the scores, one sentence each.
    notes: tuple[str, ...] = ()
    # What the method is for and did not happen.
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        e = self.experiment
        what = f"{e.method.registered_name} on {e.data.registered_name}, {self.clients} clients"
        score = f"test {self.metric} {self.test_score:.4f} (round {self.best_round})"
        return f"<Result {what}, seed {e.run.seed}: {score}, in '{self.run_dir}'>"

    def _repr_html_(self) -> str:
        e, metric = self.experiment, self.metric
        scale = 1.0 if metric == LOSS else 100.0
        known = self.test_scores()
        rows = [
            ("test " + metric.replace("_", " "), f"{scale * self.test_score:.2f}"),
            ("standard deviation over clients", f"{scale * self.std_over_clients():.2f}"),
            ("lowest and highest client", _ends([scale * score for score in known])),
            ("best round", f"{self.best_round} of {int(self.figures['rounds'])}"),
            ("sent up, down (MB)", f"{self.bytes_up / 1e6:.1f}, {self.bytes_down / 1e6:.1f}"),
        ]
        title = (
            f"{e.method.registered_name} on {e.data.registered_name}, {self.clients} clients, "
            f"seed {e.run.seed}"
        )
        return html_table(title, ("", "percent" if scale > 1 else "loss"), rows)

    def plot(self, kind: str = "convergence") -> Any:
        """A matplotlib figure: convergence, clients, similarity, communication, confusion or pr."""
        return drawn(self.run_dir, kind)

    @property
    def test_score(self) -> float:
        return self.figures[f"test_{self.metric}"]

    @property
    def val_score(self) -> float:
        return self.figures[f"val_{self.metric}"]

    @property
    def test_accuracy(self) -> float:
        return self.figures["test_accuracy"]

    @property
    def val_accuracy(self) -> float:
        return self.figures["val_accuracy"]

    def summary(self) -> dict[str, Any]:
        """The plain facts, ready for JSON."""
        e = self.experiment
        return {
            "method": e.method.registered_name,
            "data": e.data.registered_name,
            "partition": e.partition.registered_name,
            "model": e.method.model.registered_name,
            "clients": self.clients,
            "rounds": e.run.rounds,
            "seed": e.run.seed,
            "task": e.method.task.registered_name,
            "metric": self.metric,
            f"test_{self.metric}": _number(self.test_score),
            f"val_{self.metric}": _number(self.val_score),
            "best_round": self.best_round,
            "per_client": self.per_client,
            "over_all": self.over_all,
            "notes": list(self.notes),
            "figures": {name: _number(value) for name, value in self.figures.items()},
            "seconds_per_round": self.seconds_per_round,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "rejected_replies": self.rejected_replies,
            "remarks": list(self.remarks),
            "run_dir": str(self.run_dir),
        }

    def std_over_clients(self) -> float:
        """Standard deviation of the test score over clients."""
        known = self.test_scores()
        return float(np.std(known)) if known else float("nan")

    def test_scores(self) -> list[float]:
        """Of the clients that have one."""
        scores = [client[f"test_{self.metric}"] for client in self.per_client]
        return [score for score in scores if score is not None]


def _ends(values: list[float]) -> str:
    return f"{min(values):.2f}, {max(values):.2f}" if values else "-"


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if value != value else value


def store_result(
    run_dir: Path,
    experiment: Experiment,
    history: History,
    state: Kinds,
    models: Tree,
    sizes: Sequence[Size],
    rejected: int,
    concluded: Replies | None,
    remarks: Sequence[str] = (),
    beside: Sequence[Mapping[str, float | None]] = (),
) -> Result:
    """Write the final parameters and the summary, which marks the run as complete.

    ``models`` are the clients' own as far as they are here: in a deployment they are not.
    ``beside`` has further scores of each client at the best round, None where one has none.
    """
    parameters = joined(state, models)
    write_tree(run_dir / "parameters.safetensors", parameters, {"round": experiment.run.rounds})
    best = history.best()
    last = _concluding(concluded)
    traffic = {way: sum(row[way] for row in history.rounds) for way in ("bytes_up", "bytes_down")}
    figures = {
        **{name: best.mean(name) for name in best.scores.columns[2:]},
        **_means(last),
        **_known_means(beside),
        **traffic,
        "megabytes": sum(traffic.values()) / 1e6,
        "rounds": len(history.rounds),
        "best_round": best.round,
        **_spent(history),
    }
    names = read_json(run_dir / CLIENTS) if (run_dir / CLIENTS).is_file() else ()
    result = Result(
        experiment=experiment,
        clients=len(sizes),
        best_round=best.round,
        per_client=[
            {
                "client": row["client"],
                **{name: row[name] for name in _leading_first(best.scores.columns, history.metric)},
                **last.get(row["client"], {}),
                **(beside[row["client"]] if beside else {}),
                "nodes": sizes[row["client"]].nodes,
                "train_nodes": sizes[row["client"]].train,
            }
            for row in best.scores.iter_rows(named=True)
        ],
        figures=figures,
        seconds_per_round=statistics.median(row["seconds"] for row in history.rounds),
        **traffic,
        rejected_replies=rejected,
        run_dir=run_dir,
        history=history.table(),
        parameters=parameters,
        remarks=tuple(remarks),
        metric=history.metric,
        over_all={
            name: _number(score) if score is not None else None
            for name, score in best.over_all.items()
            if name.startswith("test_")
        },
        notes=notes_on(experiment, history, best, figures, names, sizes),
    )
    for note in result.notes:
        log.warning("%s", note)
    write_json(run_dir / "summary.json", result.summary())
    for checkpoint in (run_dir / "checkpoints").glob("round-*.safetensors"):
        checkpoint.unlink()
    return result


def _spent(history: History) -> dict[str, float]:
    """Epsilon of the whole run: the best round is chosen by all of them."""
    last = history.rounds[-1]
    return {"epsilon": last["epsilon"]} if "epsilon" in last else {}


def _leading_first(columns: Sequence[str], metric: str) -> list[str]:
    """The columns of test and validation scores, those of the metric first."""
    first = [f"test_{metric}", f"val_{metric}"]
    return first + [c for c in columns if c.startswith(("test_", "val_")) and c not in first]


def _concluding(replies: Replies | None) -> dict[int, dict[str, float]]:
    """What each client concluded with, by name."""
    if replies is None:
        return {}
    columns = {
        name.removeprefix("metric/"): to_numpy(leaf).tolist() for name, leaf in replies.body.items()
    }
    return {
        client: {name: column[i] for name, column in columns.items()}
        for i, client in enumerate(replies.clients)
    }


def _means(clients: dict[int, dict[str, float]]) -> dict[str, float]:
    names = next(iter(clients.values()), {})
    return {name: statistics.fmean(c[name] for c in clients.values()) for name in names}


def _known_means(clients: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """Over the clients that have a score."""
    found = {}
    for name in clients[0] if clients else ():
        known = [score for c in clients if (score := c[name]) is not None]
        found[name] = statistics.fmean(known) if known else float("nan")
    return found


def load_result(run_dir: Path, experiment: Experiment) -> Result:
    """A complete run, read back from its directory."""
    try:
        summary = json.loads((run_dir / "summary.json").read_text())
        facts: dict[str, Any] = {name: summary[name] for name in _FACTS}
        facts["remarks"] = tuple(summary.get("remarks", ()))
        facts["figures"] = {
            name: float("nan") if value is None else value
            for name, value in summary["figures"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(run_dir / "summary.json", problem) from problem
    return Result(
        experiment=experiment,
        **facts,
        # Runs of earlier versions say nothing of these.
        metric=summary.get("metric", experiment.method.task.metric),
        over_all=summary.get("over_all", {}),
        notes=tuple(summary.get("notes", ())),
        run_dir=run_dir,
        history=read_own(run_dir / "history.parquet"),
        parameters=read_tree(run_dir / "parameters.safetensors")[0],
    )
