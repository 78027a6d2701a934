"""A party's folder, written by :func:`write_parties` or made by hand, as its graph."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars
from scipy import sparse

from atoll.data.party_write import FORMAT, INDICES, VALUES
from atoll.data.table_columns import (
    Columns,
    id_array,
    label_names,
    numbered,
    read_edges,
    read_ids,
    read_splits,
    sorted_names,
)
from atoll.data.table_features import Feature, common_features, find_features, united
from atoll.data.table_files import Table, read_table
from atoll.data.tables import encoded_graph, require_roles
from atoll.errors import AtollError, unknown
from atoll.graph import Features, Graph

_KINDS: dict[str, type] = {
    "version": int,
    "name": str,
    "classes": int,
    "class_names": list,
    "categories": dict,
    "columns": dict,
    "features": dict,
    "counts": dict,
}


@dataclass(frozen=True)
class Manifest:
    """What ``party.toml`` says; a folder made by hand needs none, or only part of it.

    ``class_names`` and ``categories`` (by column) are what the parties agreed on. ``features`` is
    there in folders that :func:`write_parties` wrote.
    """

    name: str
    classes: int = 0
    class_names: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    features: dict[str, Any] = field(default_factory=dict)
    nodes: int = 0


@dataclass(frozen=True, eq=False)
class PartyFiles:
    """A party's tables and what is said about them."""

    nodes: Table
    edges: Table
    manifest: Manifest

    @property
    def written(self) -> bool:
        return bool(self.manifest.features)


def load_party(folder: str | Path, columns: Columns | None = None) -> Graph:
    """One party's graph from its own folder alone, as the party itself would load it.

    Classes are numbered as ``party.toml`` says. In a folder made by hand without one, they are the
    labels found there, which agrees with the other parties only if every party sees every class:
    set ``class_names``. ``columns`` says what the columns of such a folder are.
    """
    return load_graphs([Path(folder)], columns or Columns())[0]


def load_graphs(folders: Sequence[Path], columns: Columns) -> list[Graph]:
    """The graphs of parties whose folders are all at hand, with common features and classes."""
    parties = [_open(folder, columns) for folder in folders]
    _refuse_other_classes(parties)
    if columns.standardise and any(party.written for party in parties):
        raise AtollError(
            "data.standardise is for folders made by hand; these were written with their features "
            "as they are: standardise before the split."
        )
    by_hand = [party for party in parties if not party.written]
    features = _agreed_features(by_hand, columns)
    classes = columns.class_names or _agreed_classes(parties, columns)
    return [
        _written_graph(party)
        if party.written
        else encoded_graph(
            party.nodes, party.edges, columns, features, classes, party.manifest.name
        )
        for party in parties
    ]


def _open(folder: Path, columns: Columns) -> PartyFiles:
    if folder.exists() and not folder.is_dir():
        raise AtollError(f"'{folder}' is a file; name the party's folder.")
    if not folder.is_dir():
        raise AtollError(f"there is no folder '{folder}'; check the path.")
    manifest = _read_manifest(folder)
    text = (*columns.as_text(), *manifest.categories)
    sides = {}
    for side, texts in (("nodes", text), ("edges", (columns.source, columns.target))):
        files = [folder / f"{side}{suffix}" for suffix in (".parquet", ".csv")]
        found = [file for file in files if file.is_file()]
        if len(found) != 1:
            has = "both {} and {}; keep one." if found else "neither {} nor {}; add one."
            raise AtollError(
                f"the party's folder '{folder}' has " + has.format(*(file.name for file in files))
            )
        # A party without edges of its own is possible, one without nodes is not.
        empty = side == "edges"
        sides[side] = read_table(
            found[0], side, separator=columns.separator, text=texts, may_be_empty=empty
        )
    return PartyFiles(sides["nodes"], sides["edges"], manifest)


def _read_manifest(folder: Path) -> Manifest:
    file = folder / "party.toml"
    if not file.is_file():
        return Manifest(name=folder.name)
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise AtollError(f"'{file}' can't be read as TOML ({problem}); write it anew.") from problem
    for key, value in said.items():
        if key not in _KINDS:
            raise unknown(f"key of '{file}'", key, _KINDS)
        if not isinstance(value, _KINDS[key]) or isinstance(value, bool):
            raise AtollError(f"'{file}': {key} must be a {_KINDS[key].__name__}; correct it.")
    if said.get("version", FORMAT) != FORMAT:
        raise AtollError(
            f"'{file}' has the version {said['version']}, this Atoll reads {FORMAT}; use the "
            f"Atoll that wrote it."
        )
    try:
        return _manifest(folder, said)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise AtollError(
            f"'{file}' is damaged ({type(problem).__name__}: {problem}); fetch it anew."
        ) from problem


def _manifest(folder: Path, said: dict[str, Any]) -> Manifest:
    features = said.get("features", {})
    if features:
        features = {
            "sparse": {"sparse": True, "columns": False}[features["kind"]],
            "count": int(features["count"]),
            "names": tuple(str(name) for name in features["names"]),
            "named": bool(features["named"]),
        }
    return Manifest(
        name=said.get("name", folder.name),
        classes=said.get("classes", 0),
        class_names=tuple(str(name) for name in said.get("class_names", ())),
        categories={
            column: tuple(str(category) for category in listed)
            for column, listed in said.get("categories", {}).items()
        },
        columns={key: str(name) for key, name in said.get("columns", {}).items()},
        features=features,
        nodes=int(said["counts"]["nodes"]) if features else 0,
    )


def _refuse_other_classes(parties: Sequence[PartyFiles]) -> None:
    told = [p.manifest for p in parties if p.manifest.class_names or p.manifest.classes]
    for manifest in told:
        ours = told[0].class_names or tuple(map(str, range(told[0].classes)))
        theirs = manifest.class_names or tuple(map(str, range(manifest.classes)))
        if ours != theirs:
            raise AtollError(
                f"the parties '{told[0].name}' and '{manifest.name}' disagree on the classes in "
                f"their party.toml ({', '.join(ours)}; {', '.join(theirs)}); agree on one list."
            )


def _agreed_classes(parties: Sequence[PartyFiles], columns: Columns) -> tuple[str, ...]:
    """The classes that party.toml lists, or else all labels that the parties have, sorted."""
    for manifest in (party.manifest for party in parties):
        if manifest.class_names or manifest.classes:
            return manifest.class_names or tuple(map(str, range(manifest.classes)))
    found: set[str] = set()
    for party in parties:
        found |= set(label_names(party.nodes, columns.label).drop_nulls())
    return sorted_names(found)


def _agreed_features(parties: Sequence[PartyFiles], columns: Columns) -> list[Feature]:
    """The same features for all; categories as party.toml lists them, or else all there are."""
    agreed: dict[str, tuple[str, ...]] = {}
    for party in parties:
        for column, listed in party.manifest.categories.items():
            if agreed.setdefault(column, listed) != listed:
                raise AtollError(
                    f"two parties disagree on the categories of '{column}' in their party.toml "
                    f"({', '.join(agreed[column])}; {', '.join(listed)}); agree on one list."
                )
    found = []
    for party in parties:
        require_roles(party.nodes, columns)
        found.append(find_features(party.nodes, columns, agreed))
        common_features(parties[0].nodes, found[0], party.nodes, found[-1])
    return united(found) if found else []


def _written_graph(party: PartyFiles) -> Graph:
    """The graph as it was written, to the bit."""
    nodes, manifest = party.nodes, party.manifest
    id_, label, split = (manifest.columns.get(key, key) for key in ("id", "label", "split"))
    ids = read_ids(nodes, id_)
    if len(ids) != manifest.nodes:
        raise AtollError(
            f"{nodes.source} has {len(ids)} nodes, but its party.toml counts {manifest.nodes}; one "
            f"of them is damaged or not of this party."
        )
    y = _written_labels(party, label)
    splits = read_splits(nodes, split, y)
    return Graph(
        x=_written_features(party),
        edges=read_edges(party.edges, Columns(), ids, nodes.source),
        y=y,
        classes=len(manifest.class_names) or manifest.classes,
        train=splits["train"],
        val=splits["val"],
        test=splits["test"],
        ids=id_array(ids),
        name=manifest.name,
        class_names=manifest.class_names,
        feature_names=manifest.features["names"] if manifest.features["named"] else (),
    )


def _written_labels(party: PartyFiles, column: str) -> np.ndarray:
    """Class numbers, from names where the classes have them."""
    said, names = party.nodes.column(column, "label"), party.manifest.class_names
    if said.dtype != (polars.String if names else polars.Int64):
        raise party.nodes.unfit(column, f"it holds {said.dtype}; the file is damaged.")
    y = numbered(said, names) if names else said
    wrong = said.is_not_null() & (y.is_null() | (y >= party.manifest.classes) | (y < 0))
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise party.nodes.problem(
            column, row, f"'{said[row]}' is no class of its party.toml; one of them is damaged."
        )
    return y.fill_null(-1).to_numpy().astype(np.int64)


def _written_features(party: PartyFiles) -> Features:
    nodes, said = party.nodes, party.manifest.features
    if not said["sparse"]:
        columns = [nodes.column(name, "features") for name in said["names"]]
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
        shape = (len(places), said["count"])
        x = sparse.csr_array((_flat(values), _flat(places), indptr), shape=shape)
        x.check_format(full_check=True)
    except (ValueError, TypeError, polars.exceptions.PolarsError) as problem:
        first = str(problem).strip().split("\n")[0].rstrip(".")
        raise AtollError(
            f"{nodes.source}: {INDICES} and {VALUES} do not fit together ({first}); the file is "
            f"damaged, fetch it anew."
        ) from problem
    return x


def _flat(lists: polars.Series) -> np.ndarray:
    return lists.explode(empty_as_null=False).to_numpy()
