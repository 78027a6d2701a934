"""A party's folder, written by :func:`write_parties` or made by hand, as its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars

from atoll.data.party_manifest import (
    Manifest,
    Written,
    agreed_categories,
    read_manifest,
    refuse_other_classes,
)
from atoll.data.party_write import INDICES, VALUES
from atoll.data.reading import checked_csr, first_line
from atoll.data.table_columns import (
    Columns,
    id_array,
    label_names,
    numbered,
    read_ids,
    read_splits,
    sorted_names,
)
from atoll.data.table_edges import read_edges
from atoll.data.table_features import Feature, common_features, encode, find_features, united
from atoll.data.table_files import Table
from atoll.data.table_fitted import Preprocessing
from atoll.data.tables import encoded_graph, require_roles
from atoll.errors import AtollError
from atoll.graph import Features, Graph


@dataclass(frozen=True, eq=False)
class PartyFiles:
    """A party's tables, what their columns are, and its manifest."""

    nodes: Table
    edges: Table
    columns: Columns
    manifest: Manifest

    @property
    def own(self) -> bool:
        """Whether somebody made the folder by hand."""
        return self.manifest.written is None


def load_party(folder: str | Path, columns: Columns | None = None) -> Graph:
    """One party's graph from its own folder alone, as the party itself would load it.

    Classes are numbered as ``party.toml`` says. In a folder made by hand without one, they are the
    labels found there, which agrees with the other parties only if every party has every class:
    set ``class_names``. ``columns`` says what the columns of such a folder are, unless its
    ``party.toml`` does.
    """
    return load_graphs([Path(folder)], columns or Columns())[0]


def load_graphs(
    folders: Sequence[Path], columns: Columns, train: Sequence[np.ndarray] = ()
) -> list[Graph]:
    """The graphs of parties whose folders are all at hand, with common features and classes.

    ``train`` has the training nodes of each, where these are drawn by somebody else: what is fitted
    is fitted to them.
    """
    parties = open_parties(folders, columns)
    features, classes = agreed(parties, columns)
    graphs = [
        _graph_by_hand(party, features, classes)
        if party.manifest.written is None
        else _written_graph(party, party.manifest.written)
        for party in parties
    ]
    if not train:
        return graphs
    return [
        _fitted(graph, party, features, own) if party.own else graph
        for graph, party, own in zip(graphs, parties, train, strict=True)
    ]


def party_preprocessing(folder: Path, columns: Columns | None = None) -> dict[str, Any] | None:
    """What was fitted to a party's own tables to make its features, for JSON.

    None for a folder by :func:`write_parties`, whose features are final.
    """
    [party] = open_parties([folder], columns or Columns())
    if not party.own:
        return None
    features, classes = agreed([party], party.columns)
    graph = _graph_by_hand(party, features, classes)
    rows = np.arange(graph.nodes)
    groups = {party.manifest.name: (rows, np.flatnonzero(graph.train))}
    fitted = Preprocessing.fitted(party.nodes, features, party.columns, classes, groups)
    return fitted.as_json()


def parties_preprocessing(
    folders: Sequence[Path], columns: Columns, train: Sequence[np.ndarray]
) -> dict[str, Any]:
    """The same for several parties, each fitted to its own training nodes ``[n_k]``."""
    parties = open_parties(folders, columns)
    features, classes = agreed(parties, columns)
    found = []
    for party, own in zip(parties, train, strict=True):
        groups = {party.manifest.name: (np.arange(len(own)), np.flatnonzero(own))}
        fitted = Preprocessing.fitted(party.nodes, features, party.columns, classes, groups)
        found.append(fitted.as_json())
    whole = found[0]
    for other in found[1:]:
        for column, theirs in zip(whole["columns"], other["columns"], strict=True):
            for what in ("scale", "fill"):
                if what in theirs:
                    column.setdefault(what, {}).update(theirs[what])
    return whole


class OwnTables(NamedTuple):
    """How a party's tables are read, and the common names of columns it calls otherwise."""

    columns: Columns
    renamed: Mapping[str, str]


def tables_by_hand(folders: Sequence[Path], columns: Columns) -> tuple[OwnTables, ...]:
    """Of each party; none where a folder was written by :func:`write_parties`."""
    manifests = [read_manifest(folder) for folder in folders]
    if any(manifest.written for manifest in manifests):
        return ()
    return tuple(OwnTables(m.by_hand.over(columns), m.by_hand.renamed) for m in manifests)


def is_fitted_later(folders: Sequence[Path], columns: Columns) -> bool:
    """Whether a party's features depend on training nodes that it does not name itself."""
    for manifest in map(read_manifest, folders):
        own = manifest.by_hand.over(columns)
        named = manifest.written or manifest.by_hand.split or own.split
        if not named and (own.standardise or own.missing != "error"):
            return True
    return False


def open_parties(folders: Sequence[Path], columns: Columns) -> list[PartyFiles]:
    """The tables of parties, as far as they can be read one by one."""
    manifests = [read_manifest(folder) for folder in folders]
    refuse_other_classes(manifests)
    if columns.standardise and any(manifest.written for manifest in manifests):
        raise AtollError(
            "data.standardise is for folders made by hand; these were written with their features "
            "as they are: standardise before the split."
        )
    categories = agreed_categories(manifests)
    return [
        _open(folder, manifest, columns, categories)
        for folder, manifest in zip(folders, manifests, strict=True)
    ]


def agreed(
    parties: Sequence[PartyFiles], columns: Columns
) -> tuple[list[Feature], tuple[str, ...]]:
    """The features of folders made by hand, and the classes of all."""
    by_hand = [party for party in parties if party.own]
    features = _agreed_features(by_hand, agreed_categories([party.manifest for party in parties]))
    return features, columns.class_names or _agreed_classes(parties)


def _open(
    folder: Path, manifest: Manifest, columns: Columns, categories: Mapping[str, tuple[str, ...]]
) -> PartyFiles:
    own = manifest.by_hand.over(columns)
    nodes, edges = manifest.by_hand.open(folder, own, (*own.as_text(), *categories))
    return PartyFiles(nodes, edges, own, manifest)


def _graph_by_hand(party: PartyFiles, features: list[Feature], classes: tuple[str, ...]) -> Graph:
    """The graph of a party's own tables, with the split that it draws by itself if it does."""
    graph = encoded_graph(
        party.nodes, party.edges, party.columns, features, classes, party.manifest.name
    )
    divided = party.manifest.by_hand.divided(graph)
    return graph if divided is graph else _fitted(divided, party, features, divided.train)


def _fitted(graph: Graph, party: PartyFiles, features: list[Feature], train: np.ndarray) -> Graph:
    """The same graph with scales and fillings of its training nodes."""
    columns = party.columns
    if columns.split or not (columns.standardise or columns.missing != "error"):
        return graph
    rows = np.arange(graph.nodes)
    groups = [(rows, np.flatnonzero(train))]
    x, _ = encode(party.nodes, features, columns.standardise, columns.missing, groups)
    return replace(graph, x=x)


def _agreed_classes(parties: Sequence[PartyFiles]) -> tuple[str, ...]:
    """The classes that party.toml lists, or else all labels that the parties have, sorted."""
    listed = [party.manifest.listed_classes for party in parties]
    if any(listed):
        return next(classes for classes in listed if classes)
    found: set[str] = set()
    for party in parties:
        found |= set(label_names(party.nodes, party.columns.label).drop_nulls())
    return sorted_names(found)


def _agreed_features(
    parties: Sequence[PartyFiles], categories: Mapping[str, tuple[str, ...]]
) -> list[Feature]:
    """The same features for all; categories as party.toml lists them, or else all there are."""
    found = []
    for party in parties:
        require_roles(party.nodes, party.columns)
        found.append(find_features(party.nodes, party.columns, categories))
        common_features(parties[0].nodes, found[0], party.nodes, found[-1])
    return united(found) if found else []


def _written_graph(party: PartyFiles, written: Written) -> Graph:
    """The graph as it was written, to the bit."""
    nodes, manifest = party.nodes, party.manifest
    ids = read_ids(nodes, written.id)
    if len(ids) != written.nodes:
        raise AtollError(
            f"{nodes.source} has {len(ids)} nodes, but its party.toml counts {written.nodes}; one "
            f"of them is damaged or not of this party."
        )
    y = _written_labels(party, written.label)
    splits = read_splits(nodes, written.split, y)
    edges, weights = read_edges(party.edges, Columns(weight=written.weight), ids, nodes.source)
    return Graph(
        x=_written_features(nodes, written),
        edges=edges,
        weights=weights,
        graph_of=_written_graphs(nodes, written.graph),
        y=y,
        classes=len(manifest.listed_classes),
        train=splits["train"],
        val=splits["val"],
        test=splits["test"],
        ids=id_array(ids),
        name=manifest.name,
        class_names=manifest.class_names,
        feature_names=written.feature_names,
    )


def _written_graphs(nodes: Table, column: str) -> np.ndarray | None:
    """Which small graph each node belongs to, if the party holds many."""
    if not column:
        return None
    numbers = nodes.column(column, "graph")
    if numbers.dtype != polars.Int64 or numbers.null_count():
        raise nodes.unfit(column, f"it holds {numbers.dtype}; the file is damaged.")
    return numbers.to_numpy().astype(np.int64)


def _written_labels(party: PartyFiles, column: str) -> np.ndarray:
    """Class numbers, from names where the classes have them."""
    labels, names = party.nodes.column(column, "label"), party.manifest.class_names
    if labels.dtype != (polars.String if names else polars.Int64):
        raise party.nodes.unfit(column, f"it holds {labels.dtype}; the file is damaged.")
    y = numbered(labels, names) if names else labels
    wrong = labels.is_not_null() & (
        y.is_null() | (y >= len(party.manifest.listed_classes)) | (y < 0)
    )
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise party.nodes.problem(
            column, row, f"'{labels[row]}' is no class of its party.toml; one of them is damaged."
        )
    return y.fill_null(-1).to_numpy().astype(np.int64)


def _written_features(nodes: Table, written: Written) -> Features:
    if not written.sparse:
        columns = [nodes.column(name, "features") for name in written.feature_columns]
        for column in columns:
            if not column.dtype.is_numeric():
                raise nodes.unfit(column.name, f"it holds {column.dtype}, not numbers.")
        return np.ascontiguousarray(polars.DataFrame(columns).to_numpy())
    places, values = (nodes.column(name, "features") for name in (INDICES, VALUES))
    try:
        lengths = places.list.len().to_numpy()
        if not np.array_equal(lengths, values.list.len().to_numpy()):
            raise ValueError("their lists have different lengths")
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        shape = (len(places), written.features)
        return checked_csr((_flat(values), _flat(places), indptr), shape)
    except (ValueError, TypeError, polars.exceptions.PolarsError) as problem:
        raise AtollError(
            f"{nodes.source}: {INDICES} and {VALUES} do not fit together ({first_line(problem)}); "
            f"the file is damaged, fetch it anew."
        ) from problem


def _flat(lists: polars.Series) -> np.ndarray:
    return lists.explode(empty_as_null=False).to_numpy(writable=True)
