"""What a deployment has left at a site, opened for use: its own model of the best round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atoll.data.parties import load_party
from atoll.data.party_manifest import read_manifest
from atoll.data.party_read import party_preprocessing
from atoll.data.table_columns import Columns
from atoll.deploy.admission import Admission
from atoll.deploy.durable import Durable
from atoll.errors import AtollError
from atoll.experiment.best import FILE, read_best
from atoll.experiment.config import resolve
from atoll.inference.kept import Kept, open_run, refuse_other_features, refuse_without_model
from atoll.plugins import admitting
from atoll.rng import stream

_BEGIN, _SITE = "begin", "site"


def opened(place: Path) -> Kept:
    """What can be used at a place: a run directory, or the state of a site."""
    return open_state(place) if _runs_at(place) else open_run(place)


def open_state(state: Path, run: str | None = None, data: Path | None = None) -> Kept:
    """A site's own model of a run's best round, on its own data.

    ``state`` is the folder that the site was started with, or that of one run in it. Without
    ``run`` there must be one finished run; ``data`` is for a folder that has been moved since.
    """
    folder = _chosen(state, run)
    durable = Durable(folder)
    begun, site = durable.facts(_BEGIN) or {}, durable.facts(_SITE) or {}
    try:
        client, admits = int(begun["client"]), [str(name) for name in site["admits"]]
        table: dict[str, Any] = begun["experiment"]
        where = Path(site["data"]) if data is None else data
    except (KeyError, TypeError, ValueError) as problem:
        raise AtollError(
            f"'{folder}' is damaged or of an older version ({problem}); have the run done anew."
        ) from problem
    admission = Admission(admits)
    with admitting(admission.addresses):  # what the coordinator named is no more trusted now
        experiment = resolve(admission.localized(table))
    refuse_without_model(experiment.method)
    if not where.is_dir():
        raise AtollError(
            f"the site's data was in '{where}', which is no folder now; name it with --data."
        )
    method, seed = experiment.method, experiment.run.seed
    graph = method.task.prepare(load_party(where), stream(seed, client, 0, "task"))
    if graph.nodes != site.get("nodes"):
        raise AtollError(
            f"'{where}' has {graph.nodes} nodes, but the model was trained on "
            f"{site.get('nodes')}; restore the folder, and give new nodes with --nodes."
        )
    refuse_other_features(folder, party_preprocessing(where))
    params, best = read_best(folder, 1)
    by_hand = read_manifest(where)
    return Kept(
        folder=folder,
        experiment=experiment,
        graphs=(graph,),
        names=(graph.name,),
        numbers=(client,),
        state=params,
        round=best,
        tables=None if by_hand.written else by_hand.by_hand.over(Columns()),
        renamed=by_hand.by_hand.renamed,
    )


def _runs_at(state: Path) -> list[Path]:
    """The runs that a site has taken part in, the newest last."""
    if (state / f"{_BEGIN}.json").is_file():
        return [state]
    found = [file.parent for file in state.glob(f"*/{_BEGIN}.json")]
    return sorted(found, key=lambda folder: (folder / f"{_BEGIN}.json").stat().st_mtime)


def _chosen(state: Path, run: str | None) -> Path:
    if not state.is_dir():
        raise AtollError(f"there is no folder '{state}' (--state); check the path.")
    begun = _runs_at(state)
    if not begun:
        raise AtollError(
            f"'{state}' (--state) holds no run; name the folder that the site was started with "
            f"(atoll client --state)."
        )
    done = [folder for folder in begun if (folder / FILE).is_file()]
    if run is not None:
        named = [folder for folder in begun if folder.name == run]
        if not named:
            raise AtollError(f"'{state}' holds no run '{run}' (--run); it has: {_names(begun)}.")
        if named[0] not in done:
            raise AtollError(f"the run '{run}' has not been finished at this site; wait for it.")
        return named[0]
    if not done:
        raise AtollError(
            f"no run in '{state}' has been finished with a model to use (begun: {_names(begun)}); "
            f"wait for one."
        )
    if len(done) > 1:
        raise AtollError(f"'{state}' holds several runs; name one with --run: {_names(done)}.")
    return done[0]


def _names(folders: list[Path]) -> str:
    return ", ".join(folder.name for folder in folders)
