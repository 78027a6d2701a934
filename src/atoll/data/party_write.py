"""One folder per party: what each party gets after a graph was cut."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import tomli_w
from scipy import sparse

from atoll.data.table_files import free_name
from atoll.errors import AtollError
from atoll.files import folder_names, written_whole
from atoll.graph import SPLITS, Graph

FORMAT = 1
INDICES, VALUES = "feature_indices", "feature_values"


def write_parties(graphs: Sequence[Graph], folder: str | Path) -> list[Path]:
    """Write each party's graph into a folder of its own under ``folder``; returns those folders.

    A party's folder holds ``nodes.parquet`` (ids, labels, splits and features), ``edges.parquet``
    (each edge as its two ids, both directions of an undirected one, and its weight where edges
    have weights; of a collection of small graphs, nodes also have the number of their graph) and
    ``party.toml`` (what the columns are, the classes in their common order, and
    counts): all that is its own, and of the others nothing. Sparse features stay
    sparse: per node a list of places and a list of values.

    ``folder`` must not exist or be empty. It appears complete or not at all.
    """
    target = Path(os.path.abspath(folder))
    if not graphs:
        raise AtollError("there is no party to write; cut the graph into at least one.")
    refuse_unlike(graphs)
    _refuse_unnamed(graphs[0])
    _refuse_used(target, folder)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    names = folder_names([graph.name for graph in graphs])
    try:
        partial.mkdir(parents=True)
        for name, graph in zip(names, graphs, strict=True):
            _write_party(graph, partial / name)
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except OSError as problem:
        raise AtollError(
            f"'{folder}' can't be written ({problem.strerror}); choose another folder."
        ) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return [Path(folder) / name for name in names]


def _write_party(graph: Graph, folder: Path) -> None:
    folder.mkdir()
    ids = _ids(graph)
    _refuse_ambiguous(graph, ids)
    is_sparse = sparse.issparse(graph.x)
    features = _sparse_features(graph.x) if is_sparse else _dense_features(graph)
    columns = {what: free_name(what, features.columns) for what in ("id", "label", "split")}
    keys = polars.DataFrame(
        {
            columns["id"]: ids,
            columns["label"]: _labels(graph),
            columns["split"]: _splits(graph),
        }
    )
    if graph.graph_of is not None:
        columns["graph"] = free_name("graph", features.columns)
        keys = keys.with_columns(polars.Series(columns["graph"], graph.graph_of))
    nodes = polars.concat([keys, features], how="horizontal")
    with written_whole(folder / "nodes.parquet") as part:
        nodes.write_parquet(part)
    ends = {"source": ids.gather(graph.edges[0]), "target": ids.gather(graph.edges[1])}
    if graph.weights is not None:
        columns["weight"] = "weight"
        ends["weight"] = polars.Series(graph.weights)
    with written_whole(folder / "edges.parquet") as part:
        polars.DataFrame(ends).write_parquet(part)
    manifest: dict[str, Any] = {
        "version": FORMAT,
        "name": graph.name,
        "classes": graph.classes,
        "class_names": list(graph.class_names),
        "columns": columns,
        "features": {
            "kind": "sparse" if is_sparse else "columns",
            "count": graph.features,
            "names": list(graph.feature_names) if is_sparse else features.columns,
            "named": bool(graph.feature_names),
        },
        "counts": {
            "nodes": graph.nodes,
            "edges": graph.edges.shape[1],
            "labelled": int((graph.y >= 0).sum()),
            **{split: int(getattr(graph, split).sum()) for split in SPLITS},
        },
    }
    with written_whole(folder / "party.toml") as part:
        part.write_text(tomli_w.dumps(manifest), encoding="utf-8")


def _ids(graph: Graph) -> polars.Series:
    if np.issubdtype(graph.ids.dtype, np.signedinteger):
        return polars.Series(graph.ids.astype(np.int64))
    return polars.Series([str(i) for i in graph.ids.tolist()], dtype=polars.String)


def _labels(graph: Graph) -> polars.Series:
    numbers = polars.Series(graph.y).replace(-1, None)
    if not graph.class_names:
        return numbers
    return polars.Series(graph.class_names, dtype=polars.String).gather(numbers)


def _splits(graph: Graph) -> polars.Series:
    number = np.zeros(graph.nodes, dtype=np.uint32)
    for place, split in enumerate(SPLITS, start=1):
        number[getattr(graph, split)] = place
    return polars.Series([None, *SPLITS], dtype=polars.String).gather(number)


def _dense_features(graph: Graph) -> polars.DataFrame:
    """One column per feature, by its name or as f0, f1, ..."""
    names = graph.feature_names or tuple(f"f{i}" for i in range(graph.features))
    return polars.DataFrame(np.asarray(graph.x), schema=list(names), orient="row")


def _sparse_features(x: sparse.csr_array) -> polars.DataFrame:
    """A node's non-zeros as two lists: their places and their values."""
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    stored = polars.DataFrame(
        {"row": rows, INDICES: x.indices.astype(np.int32), VALUES: x.data}
    ).group_by("row", maintain_order=True)
    every = polars.DataFrame({"row": np.arange(x.shape[0])})
    lists = every.join(stored.all(), on="row", how="left", maintain_order="left").drop("row")
    return lists.with_columns(polars.all().fill_null([]))


def refuse_unlike(parties: Sequence[Graph]) -> None:
    """Parties of one federation have the same features and classes."""
    first = parties[0]
    for party in parties[1:]:
        if party.space != first.space:
            raise AtollError(
                f"features and classes mean something else to the party '{first.name}' than to "
                f"'{party.name}'; folders of parties are for those that share them."
            )
        if (party.graph_of is None) != (first.graph_of is None):
            many, one = (party, first) if first.graph_of is None else (first, party)
            raise AtollError(
                f"the party '{many.name}' holds many small graphs, the party '{one.name}' one; "
                f"give all parties the same kind."
            )
        if party.features != first.features or party.feature_names != first.feature_names:
            odd = sorted(set(first.feature_names) ^ set(party.feature_names))
            what = f"'{odd[0]}' is only in one of them" if odd else "their order or number differs"
            raise AtollError(
                f"the parties '{first.name}' and '{party.name}' have different feature columns "
                f"({what}); give all parties the same."
            )
        if (party.weights is None) != (first.weights is None):
            having, lacking = (party, first) if first.weights is None else (first, party)
            raise AtollError(
                f"the party '{having.name}' has edge weights, the party '{lacking.name}' has none; "
                f"give all parties weights, or none."
            )
        if (party.classes, party.class_names) != (first.classes, first.class_names):
            raise AtollError(
                f"the parties '{first.name}' and '{party.name}' have different classes; give all "
                f"parties the same class_names."
            )


def _refuse_unnamed(graph: Graph) -> None:
    if graph.feature_names and len(graph.feature_names) != graph.features:
        raise AtollError(
            f"{graph.name} has {len(graph.feature_names)} feature names for {graph.features} "
            f"features; name each or none."
        )


def _refuse_ambiguous(graph: Graph, ids: polars.Series) -> None:
    twice = ids.is_duplicated().arg_true()
    if len(twice):
        raise AtollError(
            f"{graph.name} has two nodes with the id '{ids[int(twice[0])]}'; a party holds an "
            f"entity once."
        )
    several = np.flatnonzero(sum(getattr(graph, s).astype(int) for s in SPLITS) > 1)
    if len(several):
        raise AtollError(
            f"{graph.name} has the node '{ids[int(several[0])]}' in more than one of train, val "
            f"and test; put it into one."
        )


def _refuse_used(target: Path, given: str | Path) -> None:
    if target.exists() and not target.is_dir():
        raise AtollError(f"'{given}' is a file; name a new folder for the parties.")
    if target.is_dir() and any(target.iterdir()):
        raise AtollError(f"'{given}' is not empty; name a new folder for the parties.")
