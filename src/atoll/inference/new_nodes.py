"""New nodes, added to the graphs of a run's clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars

from atoll.data.table_columns import Columns, as_names, id_array, read_ids
from atoll.data.table_edges import read_edges
from atoll.data.table_files import Table
from atoll.data.table_fitted import FILE, Preprocessing
from atoll.data.tables import Tables
from atoll.errors import AtollError, unknown
from atoll.files import read_json
from atoll.graph import (
    Features,
    Graph,
    directed_edges,
    directed_weights,
    stacked,
    undirected_edges,
    undirected_weights,
)
from atoll.inference.kept import Kept

log = logging.getLogger("atoll")


@dataclass(frozen=True)
class NewNodes:
    """A client's graph, and the rows of the nodes that are asked about."""

    graph: Graph
    rows: np.ndarray


def with_new_nodes(
    kept: Kept, client: str | None, nodes: Path, edges: Path | None
) -> tuple[Kept, list[NewNodes]]:
    """The clients that get new nodes, and their graphs with these at the end."""
    if kept.own_tables:
        kept = kept.of_party(client)
    data = _tables(kept)
    fitted = read_preprocessing(kept.folder)
    table = _node_table(nodes, data, fitted, kept.renamed)
    ids = read_ids(table, data.id).cast(polars.String)
    column = data.owner if isinstance(data, Tables) else ""
    owner = _owners(kept, client, table, column)
    known = _known(kept, table, data, ids)
    x = fitted.encode(table, _parties(kept, owner, table, column))
    everyone = polars.concat([known, ids])
    links, weights = _links(edges, data, everyone, table.source)
    chosen, found, lost = [], [], np.ones(links.shape[1], dtype=bool)
    for position in np.unique(owner).tolist():
        own = np.flatnonzero(owner == position)
        graph = kept.graphs[position]
        place = _places(everyone, graph, own + len(known))
        here = place[links]
        inside = (here >= 0).all(axis=0)
        lost &= ~inside
        chosen.append(position)
        given = None if weights is None else weights[inside]
        more = id_array(ids)[own]
        found.append(_extended(graph, x[own], more, here[:, inside], given, data))
    if lost.any():
        log.warning(
            "%d of %d new edges join nodes of different clients, which no client sees: left out",
            lost.sum(),
            len(lost),
        )
    return kept.take(chosen), found


def read_preprocessing(run_dir: Path) -> Preprocessing:
    """What was fitted to the table that a run was trained on."""
    path = run_dir / FILE
    if not path.is_file():
        raise AtollError(
            f"'{run_dir}' keeps no {FILE}; it was made by an older version: run the experiment "
            f"anew."
        )
    return Preprocessing.of_json(read_json(path), path)


def _tables(kept: Kept) -> Columns:
    if kept.tables is None:
        data = kept.experiment.data.registered_name
        what = f"the dataset '{data}'" if kept.result else "a folder by atoll split"
        raise AtollError(
            f"'{kept.folder}' was trained on {what}; only where the data is a table of nodes and "
            f"one of edges ('tables', or parties' folders made by hand) can new ones be read."
        )
    if not kept.method.used_kinds:
        raise AtollError(
            f"{kept.method.registered_name} has changed the clients' graphs in training, which "
            f"can't be done for new nodes; predict the run's own nodes, or choose another method."
        )
    return kept.tables


def _node_table(
    nodes: Path, data: Columns, fitted: Preprocessing, renamed: Mapping[str, str]
) -> Table:
    here = {common: own for own, common in renamed.items()}
    categories = [here.get(f.column, f.column) for f in fitted.features if f.kind == "category"]
    text = (*data.as_text(), *categories)
    table = data.read_nodes(_existing(nodes, "--nodes"), text)
    known = {own: common for own, common in renamed.items() if own in table.frame.columns}
    table = replace(table, frame=table.frame.rename(known))
    fitted.require_columns(table)
    meant = {*data.roles().values(), *(f.column for f in fitted.features)}
    extra = [name for name in table.frame.columns if name not in meant]
    if extra and not data.features:
        raise AtollError(
            f"{table.source} has a column '{extra[0]}', which the table trained on did not have; "
            f"leave it out."
        )
    return table


def _owners(kept: Kept, client: str | None, table: Table, owner: str) -> np.ndarray:
    """The position of the client of each new node ``[m]``."""
    if client is not None:
        asked = kept.only(client).names[0]
        if owner and owner in table.frame.columns:
            others = int((as_names(table, owner, table.frame[owner]) != asked).sum())
            if others:
                log.warning(
                    "%d of %d new nodes have another owner in column '%s' than '%s': they are "
                    "scored as its own",
                    others,
                    table.frame.height,
                    owner,
                    asked,
                )
        return np.full(table.frame.height, kept.names.index(asked))
    if len(kept.names) == 1:
        return np.zeros(table.frame.height, dtype=np.int64)
    if not owner or owner not in table.frame.columns:
        column = f", or a column '{owner}'" if owner else ""
        raise AtollError(
            f"{table.source} does not say whose its nodes are; give --client NAME{column} (clients "
            f"are: {', '.join(kept.names)})."
        )
    owners = as_names(table, owner, table.frame[owner])
    strange = next((name for name in owners if name not in kept.names), "")
    if strange is None:
        row = int(owners.is_null().arg_true()[0])
        raise table.problem(owner, row, "the owner is missing; give every node one.")
    if strange:
        raise unknown(f"client in {table.source}, column '{owner}'", strange, kept.names)
    return np.array([kept.names.index(name) for name in owners], dtype=np.int64)


def _known(kept: Kept, table: Table, data: Columns, ids: polars.Series) -> polars.Series:
    """The ids of all nodes of the run, each one once."""
    known = polars.Series(np.unique(np.concatenate([g.ids.astype(str) for g in kept.graphs])))
    again = ids.is_in(known.to_list()).arg_true()
    if len(again):
        row = int(again[0])
        raise table.problem(
            data.id,
            row,
            f"'{ids[row]}' is a node of the run already; leave it out (edges to it may stay).",
        )
    return known


def _parties(kept: Kept, whose: np.ndarray, table: Table, owner: str) -> list[str]:
    """Whose each new node is, as the table trained on calls its parties."""
    if owner and owner in table.frame.columns:
        return as_names(table, owner, table.frame[owner]).fill_null("").to_list()
    named = owner or kept.own_tables or kept.result is None
    return [kept.names[position] if named else "" for position in whose.tolist()]


def _links(
    edges: Path | None, data: Columns, ids: polars.Series, nodes: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """The listed edges ``[2, e]`` as places among all ids, known and new, and their weights."""
    if edges is None:
        return np.zeros((2, 0), dtype=np.int64), np.zeros(0) if data.weight else None
    table = data.read_edges(_existing(edges, "--edges"), may_be_empty=True)
    return read_edges(table, data, ids, f"{nodes} and none of the run")


def _places(everyone: polars.Series, graph: Graph, new: np.ndarray) -> np.ndarray:
    """The row of each known or new node in a client's graph, -1 where it is not there."""
    rows = {name: row for row, name in enumerate(graph.ids.astype(str).tolist())}
    place = np.array([rows.get(name, -1) for name in everyone], dtype=np.int64)
    place[new] = graph.nodes + np.arange(len(new))
    return place


def _extended(
    graph: Graph,
    x: Features,
    ids: np.ndarray,
    links: np.ndarray,
    weights: np.ndarray | None,
    data: Columns,
) -> NewNodes:
    """A client's graph with new nodes of unknown class at its end."""
    more = len(ids)
    nodes = graph.nodes + more
    edges, every_weight = np.concatenate([graph.edges, links], axis=1), None
    kept = (directed_edges if data.directed else undirected_edges)(edges, nodes)
    if graph.weights is not None and weights is not None:
        more_weights = np.log1p(weights) if data.weight_scale == "log" else weights
        listed = np.concatenate([graph.weights, more_weights])
        weigh = directed_weights if data.directed else undirected_weights
        every_weight = weigh(edges, listed, kept)
    nowhere = np.zeros(more, dtype=bool)
    whole = replace(
        graph,
        x=stacked([graph.x, x]),
        edges=kept,
        weights=every_weight,
        y=np.concatenate([graph.y, np.full(more, -1)]),
        train=np.concatenate([graph.train, nowhere]),
        val=np.concatenate([graph.val, nowhere]),
        test=np.concatenate([graph.test, nowhere]),
        ids=np.concatenate([graph.ids.astype(str), ids.astype(str)]),
    )
    return NewNodes(whole, np.arange(graph.nodes, nodes))


def _existing(path: Path, option: str) -> Path:
    if not path.is_file():
        raise AtollError(f"there is no file '{path}' ({option}); check the path.")
    return path
