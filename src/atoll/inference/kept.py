"""A finished run opened for use: its clients' graphs, and the models of its best round.

A run directory has all clients; the state of a site has one, its own (:mod:`.at_site`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from atoll.cohort import Cohort
from atoll.data.parties import Parties
from atoll.data.party_read import OwnTables
from atoll.data.table_columns import Columns
from atoll.data.table_fitted import FILE as PREPROCESSING
from atoll.data.tables import Tables
from atoll.errors import AtollError, unknown
from atoll.experiment.best import read_best
from atoll.experiment.config import Experiment
from atoll.experiment.embeddings import seen_by
from atoll.experiment.result import Result, load_result
from atoll.experiment.run_dir import is_complete
from atoll.experiment.runner import load_parties, read_experiment
from atoll.files import read_json
from atoll.graph import Graph
from atoll.methods.base import Method
from atoll.tree import Kinds, Params, flat, nested, take


@dataclass(frozen=True)
class Kept:
    """The clients of a finished run, or some of them, with the models they were scored with."""

    # The run directory, or the run's folder at a site.
    folder: Path
    experiment: Experiment
    graphs: tuple[Graph, ...]
    names: tuple[str, ...]
    # Their numbers in the federation.
    numbers: tuple[int, ...]
    # By kind; every leaf has a leading client axis.
    state: Kinds
    # Of which round they are.
    round: int
    # How new tables are read; None where the data was none.
    tables: Columns | None = None
    # The common names of columns that are called otherwise in the tables.
    renamed: Mapping[str, str] = field(default_factory=dict)
    # The same of every client, where each has tables of its own.
    own_tables: tuple[OwnTables, ...] = ()
    # What the coordinator knows; a site has its own models only.
    result: Result | None = None

    @property
    def method(self) -> Method:
        return self.experiment.method.scorer

    @property
    def params_K(self) -> Params:
        return self.state["model"]

    @property
    def class_names(self) -> tuple[str, ...]:
        graph = self.graphs[0]
        return graph.class_names or tuple(map(str, range(graph.classes)))

    def take(self, positions: list[int]) -> Kept:
        """Some of the clients."""
        return replace(
            self,
            graphs=tuple(self.graphs[p] for p in positions),
            names=tuple(self.names[p] for p in positions),
            numbers=tuple(self.numbers[p] for p in positions),
            own_tables=tuple(self.own_tables[p] for p in positions if self.own_tables),
            state=nested(take(flat(self.state), positions)),
        )

    def only(self, client: str) -> Kept:
        """One client, by its name or its number."""
        if client not in self.names and client.isdecimal() and int(client) < len(self.names):
            return self.take([int(client)])
        if client not in self.names:
            raise unknown("client of the run", client, self.names)
        return self.take([self.names.index(client)])

    def of_party(self, client: str | None) -> Kept:
        """One client whose tables are its own, with the way to read them."""
        if client is None and len(self.names) > 1:
            raise AtollError(
                f"every party of '{self.folder}' has tables of its own; give --client NAME "
                f"(clients are: {', '.join(self.names)})."
            )
        one = self if client is None else self.only(client)
        columns, renamed = one.own_tables[0]
        return replace(one, tables=columns, renamed=renamed)

    def on(self, graphs: list[Graph]) -> tuple[Params, Cohort]:
        """The clients' models, and what models compute from on some graphs, one per client."""
        return seen_by(self.method, self.state, graphs, self.experiment.run)


def open_run(run_dir: str | Path | Kept) -> Kept:
    """The models of a run's best round, on the data that they were trained on."""
    if isinstance(run_dir, Kept):
        return run_dir
    run_dir = Path(run_dir)
    experiment = read_experiment(run_dir)
    if not is_complete(run_dir):
        raise AtollError(f"'{run_dir}' is not complete; finish it with: atoll resume {run_dir}")
    refuse_without_model(experiment.method)
    result = load_result(run_dir, experiment)
    parties = load_parties(experiment)
    graphs = parties.graphs
    sizes = [client["nodes"] for client in result.per_client]
    found = [graph.nodes for graph in graphs]
    if found != sizes:
        raise AtollError(
            f"'{run_dir}' was trained on clients of {_listed(sizes)} nodes, but its data now gives "
            f"{_listed(found)}; restore the data it was trained on."
        )
    refuse_other_features(run_dir, experiment.data.preprocessing(parties.train))
    state, best = read_best(run_dir, len(graphs))
    return Kept(
        folder=run_dir,
        experiment=experiment,
        graphs=tuple(graphs),
        names=parties.names or tuple(graph.name for graph in graphs),
        numbers=tuple(range(len(graphs))),
        state=state,
        round=best,
        tables=experiment.data if isinstance(experiment.data, Tables) else None,
        own_tables=_own_tables(experiment, len(graphs)),
        result=result,
    )


def _own_tables(experiment: Experiment, clients: int) -> tuple[OwnTables, ...]:
    """Of parties' folders that were made by hand, each of which is a client as it is."""
    data = experiment.data
    natural = experiment.partition.registered_name == "natural"
    found = data.tables() if isinstance(data, Parties) and natural else ()
    return found if len(found) == clients else ()


def refuse_without_model(method: Method) -> None:
    if not method.scores_plainly:
        raise AtollError(
            f"{method.registered_name} leaves no model that could be applied to nodes by itself "
            f"(each client's scores depend on more than its own graph); choose another method."
        )


def refuse_other_features(run_dir: Path, fitted: dict[str, Any] | None) -> None:
    """Features must be made as the models had them; versions and edited tables may differ."""
    path = run_dir / PREPROCESSING
    if fitted is None or not path.is_file():
        return
    if read_json(path) != json.loads(json.dumps(fitted)):
        raise AtollError(
            f"'{run_dir}' was trained on features that its data no longer gives (see its "
            f"{PREPROCESSING}): the table has changed, or the run is of an older version; restore "
            f"the table or run the experiment anew."
        )


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
