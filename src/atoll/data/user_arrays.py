"""From arrays to a graph, with errors that say which entry of which array is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.table_columns import sorted_names
from atoll.errors import AtollError
from atoll.graph import (
    SPLITS,
    Features,
    Graph,
    Holding,
    directed_edges,
    directed_weights,
    first_bad_weight,
    nodes_of,
    undirected_edges,
    undirected_weights,
)

# An array and the key that messages call it by.
Named = tuple[str, Any]


def assemble(
    *,
    x: Features,
    edges: np.ndarray,
    y: np.ndarray,
    classes: int,
    ids: np.ndarray,
    name: str,
    splits: Mapping[str, np.ndarray] | None = None,
    holdings: tuple[Holding, ...] = (),
    class_names: tuple[str, ...] = (),
    feature_names: tuple[str, ...] = (),
    directed: bool = False,
    weights: np.ndarray | None = None,
    log_weights: bool = False,
) -> Graph:
    """A graph without self-loops or repeated edges, with whatever masks the data has.

    ``weights`` are those of the edges as listed; what becomes of repeated ones is said at
    :func:`atoll.graph.undirected_weights`. ``log_weights`` takes log(1 + weight) in the end.
    """
    n = x.shape[0]
    nothing = {split: np.zeros(n, dtype=bool) for split in SPLITS}
    kept = directed_edges(edges, n) if directed else undirected_edges(edges, n)
    if weights is not None:
        weights = (directed_weights if directed else undirected_weights)(edges, weights, kept)
        weights = np.log1p(weights) if log_weights else weights
    return Graph(
        x=x,
        edges=kept,
        weights=weights,
        y=y,
        classes=classes,
        ids=ids,
        name=name,
        holdings=holdings,
        class_names=class_names,
        feature_names=feature_names,
        **(nothing | dict(splits or {})),
    )


def checked_graph(
    where: str,
    *,
    x: Named,
    edges: Named,
    labels: Named,
    name: str,
    ids: np.ndarray | None = None,
    owner: np.ndarray | None = None,
    masks: Mapping[str, np.ndarray] | None = None,
    class_names: tuple[str, ...] = (),
    directed: bool = False,
    weights: Named | None = None,
) -> Graph:
    """The graph of a user's own arrays, each given with the key it is known by.

    ``masks`` are by split. Labels that are text name the classes themselves.
    """
    features = checked_features(where, *x)
    nodes = features.shape[0]
    y, found_names = checked_labels(where, *labels)
    if len(y) != nodes:
        raise AtollError(
            f"{where}: {labels[0]} has {len(y)} entries for {nodes} nodes; give one per node, -1 "
            f"for unknown."
        )
    names = found_names or _checked_class_names(where, class_names, y)
    listed = checked_edges(where, *edges, nodes)
    return assemble(
        x=features,
        edges=listed,
        weights=None if weights is None else checked_weights(where, *weights, listed.shape[1]),
        y=y,
        classes=_class_count(where, y, names),
        ids=np.arange(nodes) if ids is None else checked_ids(where, "ids", ids, nodes),
        name=name,
        splits={
            split: checked_mask(where, f"{split}_mask", mask, y)
            for split, mask in (masks or {}).items()
        },
        holdings=() if owner is None else owner_holdings(where, "owner", owner, nodes),
        class_names=names,
        directed=directed,
    )


def checked_features(where: str, key: str, x: Any) -> Features:
    """A finite float32 matrix ``[n, f]``, dense or CSR."""
    if x.ndim != 2 or 0 in x.shape:
        raise AtollError(
            f"{where}: {key} has the shape {tuple(x.shape)}; it must have a row for each node and "
            f"a column for each feature, at least one."
        )
    values = x.data if sparse.issparse(x) else x
    if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool) or np.iscomplexobj(
        values
    ):
        raise AtollError(f"{where}: {key} holds {values.dtype}; features are real numbers.")
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    finite = np.isfinite(single.data if sparse.issparse(single) else single)
    if not finite.all():
        rows, columns = (
            (sparse.coo_array(single).coords) if sparse.issparse(single) else np.indices(x.shape)
        )
        bad = np.flatnonzero(~finite)[0]
        raise AtollError(
            f"{where}: {key}[{rows.reshape(-1)[bad]}, {columns.reshape(-1)[bad]}] is NaN, infinite "
            f"or too large; fill or drop it before loading."
        )
    return sparse.csr_array(single) if sparse.issparse(single) else np.ascontiguousarray(single)


def checked_edges(where: str, key: str, edges: np.ndarray, nodes: int) -> np.ndarray:
    """Edges ``[2, e]`` of node numbers."""
    if edges.ndim != 2 or edges.shape[0] != 2:
        remedy = "transpose it" if edges.ndim == 2 and edges.shape[1] == 2 else "mend it"
        raise AtollError(
            f"{where}: {key} has the shape {edges.shape}; it must be [2, edges] of node numbers: "
            f"{remedy}."
        )
    if edges.size and not np.issubdtype(edges.dtype, np.integer):
        raise AtollError(f"{where}: {key} holds {edges.dtype}; node numbers are whole numbers.")
    wrong = np.argwhere((edges < 0) | (edges >= nodes))
    if len(wrong):
        end, column = wrong[np.argmin(wrong[:, 1])]
        raise AtollError(
            f"{where}: {key}[{end}, {column}] is {edges[end, column]}, but nodes are numbered from "
            f"0 to {nodes - 1}; correct it or drop the edge."
        )
    return edges.astype(np.int64)


def checked_weights(where: str, key: str, weights: np.ndarray, edges: int) -> np.ndarray:
    """Finite edge weights ``[e]``, at least 0."""
    if weights.shape not in ((edges,), (edges, 1)):
        raise AtollError(
            f"{where}: {key} has the shape {weights.shape} for {edges} edges; give one weight per "
            f"edge."
        )
    if weights.dtype.kind not in "biuf":
        raise AtollError(f"{where}: {key} holds {weights.dtype}; weights are real numbers.")
    plain = weights.reshape(-1).astype(np.float64)
    if (bad := first_bad_weight(plain)) is not None:
        raise AtollError(
            f"{where}: {key}[{bad}] is {plain[bad]:g}; weights are finite and at least 0: correct "
            f"it, or leave the weights out."
        )
    return plain


def checked_labels(where: str, key: str, labels: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers ``[n]``, -1 where unknown, and the classes' names if they are text.

    Whole numbers are class numbers already; NaN is unknown. Text is numbered in sorted order;
    empty text is unknown.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise AtollError(
            f"{where}: {key} has the shape {labels.shape}; it must hold one class for each node."
        )
    if labels.dtype.kind == "U":
        names = sorted_names(name for name in np.unique(labels).tolist() if name)
        places = {name: place for place, name in enumerate(names)} | {"": -1}
        return np.array([places[name] for name in labels.tolist()], dtype=np.int64), names
    if labels.dtype.kind not in "biuf":
        raise AtollError(f"{where}: {key} holds {labels.dtype}; labels are whole numbers or text.")
    known = np.where(np.isnan(labels), -1, labels) if labels.dtype.kind == "f" else labels
    wrong = np.flatnonzero((known < -1) | (known != np.round(known)) | np.isinf(known))
    if len(wrong):
        raise AtollError(
            f"{where}: {key}[{wrong[0]}] is {labels[wrong[0]]}, which is no class; number the "
            f"classes from 0 and write -1 for an unknown label."
        )
    return known.astype(np.int64), ()


def checked_mask(where: str, key: str, mask: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A boolean mask ``[n]`` of labelled nodes."""
    if mask.ndim == 2:
        raise AtollError(
            f"{where}: {key} has the shape {mask.shape}, several splits; choose one column of it."
        )
    if mask.shape != y.shape:
        raise AtollError(
            f"{where}: {key} has {mask.size} entries for {len(y)} nodes; give one per node."
        )
    if mask.dtype.kind not in "biu" or (mask.size and not np.isin(mask, (0, 1)).all()):
        raise AtollError(f"{where}: {key} must hold true or false only.")
    chosen: np.ndarray = mask.astype(bool)
    unlabelled = np.flatnonzero(chosen & (y < 0))
    if len(unlabelled):
        raise AtollError(
            f"{where}: {key}[{unlabelled[0]}] is true, but that node has no label; take it out of "
            f"the mask."
        )
    return chosen


def checked_ids(where: str, key: str, ids: np.ndarray, nodes: int) -> np.ndarray:
    """Distinct ids ``[n]``, text or whole numbers."""
    if ids.shape != (nodes,):
        raise AtollError(
            f"{where}: {key} has the shape {ids.shape} for {nodes} nodes; give one id per node."
        )
    if ids.dtype.kind not in "iuU":
        raise AtollError(f"{where}: {key} holds {ids.dtype}; ids are text or whole numbers.")
    _, first, count = np.unique(ids, return_index=True, return_counts=True)
    if (count > 1).any():
        twice = ids[first[np.argmax(count > 1)]]
        at = np.flatnonzero(ids == twice)
        raise AtollError(
            f"{where}: {key}[{at[0]}] and {key}[{at[1]}] are both '{twice}'; give every node an id "
            f"of its own."
        )
    return ids


def owner_holdings(where: str, key: str, owner: np.ndarray, nodes: int) -> tuple[Holding, ...]:
    """A natural holding for each owner, in order of their names."""
    if owner.shape != (nodes,):
        raise AtollError(
            f"{where}: {key} has the shape {owner.shape} for {nodes} nodes; give one owner per "
            f"node."
        )
    if owner.dtype.kind not in "biuU":
        raise AtollError(f"{where}: {key} holds {owner.dtype}; owners are text or whole numbers.")
    names, number = np.unique(owner, return_inverse=True)
    if "" in names.tolist():
        raise AtollError(
            f"{where}: {key}[{np.flatnonzero(owner == '')[0]}] is empty; give every node an owner."
        )
    return tuple(map(Holding, map(str, names.tolist()), nodes_of(number, len(names))))


def _checked_class_names(where: str, names: tuple[str, ...], y: np.ndarray) -> tuple[str, ...]:
    if names and (len(names) <= y.max(initial=-1) or len(set(names)) != len(names)):
        raise AtollError(
            f"{where}: class_names has {len(set(names))} different names, but labels go up to "
            f"{y.max(initial=-1)}; name each class once."
        )
    return names


def _class_count(where: str, y: np.ndarray, names: Sequence[str]) -> int:
    """How many classes there are; none is an error, as there would be nothing to learn."""
    classes = len(names) or int(y.max(initial=-1)) + 1
    if not classes:
        raise AtollError(f"{where}: no node has a label; label some, or there is nothing to learn.")
    return classes
