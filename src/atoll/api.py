"""The same as the command line, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars

from atoll.comparison.compare import DEFAULT_METHODS, compare_methods
from atoll.comparison.outcome import Comparison
from atoll.comparison.plan import is_comparison
from atoll.comparison.runs import Watch
from atoll.data.base import Dataset
from atoll.data.split import Split
from atoll.errors import AtollError
from atoll.experiment.callbacks import Callback
from atoll.experiment.choices import choose
from atoll.experiment.drawing import let_draw
from atoll.experiment.result import Result
from atoll.experiment.runner import Progress, run_experiment
from atoll.experiment.runner import resume as _resume
from atoll.federation.cluster import engine_of
from atoll.inference.at_site import opened
from atoll.inference.embed import embed as _embed
from atoll.inference.export import export as _export
from atoll.inference.predict import predict as _predict
from atoll.loggers.base import callbacks_of
from atoll.methods.base import Method
from atoll.models.base import Model
from atoll.optimizers.base import Optimizer
from atoll.options import not_a_choice
from atoll.partition.base import Partition
from atoll.report.study import write_study
from atoll.reproduction.paper import paper_settings, papers_of
from atoll.tabulation.outcome import Study
from atoll.tabulation.study import run_study
from atoll.tasks.base import Task
from atoll.tuning.outcome import Tuning
from atoll.tuning.tune import Search
from atoll.tuning.tune import tune as run_search


def run(
    recipe: str | Path | None = None,
    *,
    method: str | Method | None = None,
    data: str | Dataset | Any | None = None,
    partition: str | Partition | None = None,
    task: str | Task | None = None,
    model: str | Model | None = None,
    optimizer: str | Optimizer | None = None,
    split: Split | None = None,
    owner: str | None = None,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    chunk: int | None = None,
    metric: str | None = None,
    settings: Mapping[str, Any] | Literal["paper"] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    callbacks: Sequence[Callback | str] = (),
    engine: str = "process",
    workers: int = 0,
) -> Result:
    """Run an experiment and return its result.

    Parts are given by registered name or as objects; ``settings`` reaches any other field, as in
    ``{"method.fraction": 0.5, "optimizer.lr": 0.01}``. ``model`` may also be the class of a
    ``torch.nn.Module`` (docs/your-own-model.md). ``recipe`` is a TOML file that the other
    arguments override; ``settings`` win over both. ``settings="paper"`` are those of the method's
    paper, which all other arguments override. ``data`` may also be a PyG ``Data``, a NetworkX
    graph or a :class:`atoll.Graph`, as it is. ``owner`` names the column of your own table (or the
    attribute of your object) that says whose each node is. ``metric`` chooses the best round
    (docs/metrics.md). ``progress`` is called with (round, mean validation score). ``callbacks``
    are :class:`atoll.Callback` objects, or loggers by name: ``"tensorboard"``. ``engine`` is where
    it is computed: ``"ray"`` or ``"ray:HOST:PORT"`` for a cluster (docs/beyond-one-machine.md).

        result = atoll.run(method="fed-avg", data="cora", clients=10, rounds=100, seed=0)
        print(result.test_accuracy, result.history)
    """
    chosen = choose(
        recipe=recipe,
        method=method,
        data=data,
        partition=partition,
        task=task,
        model=model,
        optimizer=optimizer,
        split=split,
        owner=owner,
        clients=clients,
        rounds=rounds,
        seed=seed,
        chunk=chunk,
        metric=metric,
        **_chosen_settings(settings),
    )
    folder = None if out is None else Path(out)
    where = engine_of(engine, workers)
    return run_experiment(chosen, folder, progress, callbacks=callbacks_of(callbacks), engine=where)


def compare(
    recipe: str | Path | None = None,
    *,
    methods: Sequence[str | Method] | Mapping[str, str | Method] = DEFAULT_METHODS,
    seeds: int = 5,
    jobs: int = 1,
    data: str | Dataset | None = None,
    partition: str | Partition | None = None,
    task: str | Task | None = None,
    model: str | Model | None = None,
    optimizer: str | Optimizer | None = None,
    split: Split | None = None,
    owner: str | None = None,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    chunk: int | None = None,
    metric: str | None = None,
    settings: Mapping[str, Any] | Literal["paper"] | None = None,
    out: str | Path | None = None,
    progress: Watch | None = None,
    engine: str = "process",
    workers: int = 0,
) -> Comparison:
    """Run methods over seeds on the same sites: is joining worth it, and for whom?

    ``methods`` are names or objects, or either of them by a label of yours. ``seed`` is the first
    of ``seeds``; who holds which node is the same with all of them. ``jobs`` runs at a time have
    processes of their own; a script then needs ``if __name__ == "__main__":``. With an ``out``
    that holds the same comparison, it goes on with what is there. ``progress`` is called with
    (rounds done, rounds in all, what is under way). All else is as in :func:`run`.

        found = atoll.compare(methods=["local", "fed-avg"], data="twitch", partition="natural")
        print(found)                    # and found.methods, found.sites, found.runs
    """
    choices = {
        "recipe": recipe,
        "data": data,
        "partition": partition,
        "task": task,
        "model": model,
        "optimizer": optimizer,
        "split": split,
        "owner": owner,
        "clients": clients,
        "rounds": rounds,
        "seed": seed,
        "chunk": chunk,
        "metric": metric,
    }
    choices |= _chosen_settings(settings, [m for m in _listed(methods) if isinstance(m, str)])
    folder = None if out is None else Path(out)
    where = engine_of(engine, workers)
    return compare_methods(methods, choices, seeds, jobs, folder, progress, where)


def study(
    source: str | Path | Mapping[str, Any],
    *,
    seeds: int | None = None,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: Watch | None = None,
    engine: str = "process",
    workers: int = 0,
) -> Study:
    """Run a table of your own: rows, columns and seeds, with tests and ranks (docs/studies.md).

    ``source`` is a TOML file or a dictionary of the same shape. All pages and tables are written
    into ``out``, by default ``runs/study-NAME``; what is there already is not run again.

        found = atoll.study({
            "settings": {"partition": {"clients": 5}, "run": {"rounds": 20}},
            "rows": {"data": ["digits", "patients"]},
            "columns": {"method": ["local", "fed-avg"]},
        })
        print(found.cells, found.differences, found.ranks)
    """
    folder = None if out is None else Path(out)
    found = run_study(source, seeds, jobs, folder, progress, engine_of(engine, workers))
    write_study(found)
    return found


def tune(
    recipe: str | Path | None = None,
    *,
    over: Mapping[str, str | Sequence[Any]],
    trials: int = 20,
    seeds: int = 1,
    prune: bool = True,
    method: str | Method | None = None,
    data: str | Dataset | Any | None = None,
    partition: str | Partition | None = None,
    task: str | Task | None = None,
    model: str | Model | None = None,
    optimizer: str | Optimizer | None = None,
    split: Split | None = None,
    owner: str | None = None,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    chunk: int | None = None,
    metric: str | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: Watch | None = None,
) -> Tuning:
    """Search settings by their validation score (docs/tuning.md); tests have no say in it.

    ``over`` has a range or a list of values per setting. Each of ``trials`` is run with ``seeds``
    seeds. With an ``out`` that holds the same search, it goes on with what is there. ``progress``
    is called with (rounds done, rounds in all, what is under way). All else is as in :func:`run`.

        found = atoll.tune(data="digits", method="fed-prox", clients=5, rounds=20, trials=20,
                           over={"optimizer.lr": "0.001..0.1:log", "method.mu": [0.1, 1.0]})
        atoll.run(found.best_config)
    """
    choices = {
        "recipe": recipe,
        "method": method,
        "data": data,
        "partition": partition,
        "task": task,
        "model": model,
        "optimizer": optimizer,
        "split": split,
        "owner": owner,
        "clients": clients,
        "rounds": rounds,
        "seed": seed,
        "chunk": chunk,
        "metric": metric,
        "settings": tuple((settings or {}).items()),
    }
    search = Search(choices, over, trials, seeds, prune)
    return run_search(search, None if out is None else Path(out), progress)


def resume(
    run_dir: str | Path,
    progress: Progress | None = None,
    callbacks: Sequence[Callback | str] = (),
    engine: str = "process",
    workers: int = 0,
) -> Result:
    """Continue an interrupted run to the same final bytes as an uninterrupted one."""
    if is_comparison(Path(run_dir)):
        raise AtollError(
            f"'{run_dir}' is a comparison, not a run; continue it with: atoll resume {run_dir}, or "
            f"with atoll.compare and the same arguments."
        )
    where = engine_of(engine, workers)
    return _resume(Path(run_dir), progress, callbacks_of(callbacks), where)


def predict(
    run: str | Path | Result,
    *,
    client: str | None = None,
    nodes: str | Path | None = None,
    edges: str | Path | None = None,
) -> polars.DataFrame:
    """The class of each node and a probability per class, by the model of a run's best round.

    Without ``nodes`` the run's own nodes; with it those of a table like the one trained on, which
    ``edges`` link to each other and to known nodes. ``client`` is a name or a number. ``run`` may
    also be the folder of a site's state, whose own model is used then.
    """
    return _predict(opened(_run_dir(run)), client, nodes, edges)


def embed(
    run: str | Path | Result, *, client: str | None = None, cluster: bool = False
) -> polars.DataFrame:
    """Each node's embedding, by the model of a run's best round: ``id``, ``client``, ``e0``, ...

    With ``cluster`` its ``cluster`` by k-means comes before these.
    """
    return _embed(opened(_run_dir(run)), client, cluster)


def export(
    run: str | Path | Result,
    out: str | Path,
    *,
    client: str | None = None,
    to: Literal["torch", "onnx"] = "torch",
) -> list[Path]:
    """Write models as plain torch_geometric modules with weights and cards; returns the folders."""
    return _export(opened(_run_dir(run)), out, client, to)


def _listed(methods: Sequence[str | Method] | Mapping[str, str | Method]) -> list[str | Method]:
    return list(methods.values() if isinstance(methods, Mapping) else methods)


def _chosen_settings(
    settings: Mapping[str, Any] | str | None, together: Sequence[str] = ()
) -> dict[str, Any]:
    """The argument ``settings``: options by their path, or those of the method's paper."""
    if not isinstance(settings, str):
        return {"settings": tuple((settings or {}).items())}
    if settings != "paper":
        raise not_a_choice("settings", settings, ("paper",))
    return {"paper": papers_of(together) if together else paper_settings}


def _drawn(run_dir: Path, kind: str) -> Any:
    from atoll.report.figures import draw

    return draw([run_dir], kind)


let_draw(_drawn)


def _run_dir(run: str | Path | Result) -> Path:
    return run.run_dir if isinstance(run, Result) else Path(run)
