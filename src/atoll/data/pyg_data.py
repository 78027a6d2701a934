"""A torch_geometric ``Data`` as a dataset."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from atoll.data.in_memory import InMemory, from_graph
from atoll.data.user_arrays import checked_graph
from atoll.errors import AtollError
from atoll.graph import SPLITS

if TYPE_CHECKING:
    from torch_geometric.data import Data

log = logging.getLogger("atoll")

_WHERE = "the PyG data"


def from_pyg(
    data: Data,
    *,
    ids: Sequence[Any] | np.ndarray | None = None,
    owner: Sequence[Any] | np.ndarray | None = None,
    class_names: Sequence[str] = (),
    directed: bool = False,
    weights: bool = True,
    name: str = "pyg",
) -> InMemory:
    """A PyG ``Data`` as the ``data`` of :func:`atoll.run`.

    Reads ``x [n, f]`` (dense, or a torch sparse tensor, which stays sparse), ``edge_index [2, e]``,
    ``y [n]`` (-1 or NaN for unknown) and, if there, ``train_mask``, ``val_mask`` and ``test_mask``.
    ``edge_weight``, or else ``edge_attr`` if it is one number per edge, weighs the edges, unless
    ``weights`` is False. ``ids`` names the nodes (0 to n - 1 if not given), ``owner`` says whose
    each is. Anything with these attributes will do: torch_geometric itself is not needed.
    """
    for needed in ("x", "edge_index", "y"):
        if getattr(data, needed, None) is None:
            raise AtollError(f"{_WHERE} has no '{needed}'; set data.{needed} first.")
    masks = {split: getattr(data, f"{split}_mask", None) for split in SPLITS}
    graph = checked_graph(
        _WHERE,
        x=("x", _matrix(data.x)),
        edges=("edge_index", _array(data.edge_index)),
        labels=("y", _array(data.y)),
        name=name,
        ids=None if ids is None else np.array(ids),
        owner=None if owner is None else np.array(owner),
        masks={split: _array(mask) for split, mask in masks.items() if mask is not None},
        class_names=tuple(class_names),
        directed=directed,
        weights=_weights(data) if weights else None,
    )
    return from_graph(graph)


def _weights(data: Any) -> tuple[str, np.ndarray] | None:
    """One number per edge, by the attribute that has it."""
    for key in ("edge_weight", "edge_attr"):
        if (found := getattr(data, key, None)) is None:
            continue
        array = _array(found)
        if key == "edge_weight" or array.ndim == 1 or array.shape[1:] == (1,):
            return key, array
        log.warning(
            "edge_attr of %s has %d numbers per edge, so it is not used: weights are one per edge, "
            "in edge_weight.",
            _WHERE,
            array.shape[1],
        )
    return None


def _array(tensor: Any) -> np.ndarray:
    """A tensor on any device, or an array."""
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)


def _matrix(x: Any) -> Any:
    """Features as an array, or CSR where they are sparse in torch or scipy."""
    layout = str(getattr(x, "layout", ""))
    if not layout.startswith("torch.sparse"):
        return sparse.csr_array(x) if sparse.issparse(x) else _array(x)
    x = x.detach().cpu()
    if layout != "torch.sparse_csr":
        x = x.to_sparse_coo().coalesce()
        indices = _array(x.indices())
        return sparse.csr_array((_array(x.values()), (indices[0], indices[1])), shape=x.shape)
    parts = (_array(x.values()), _array(x.col_indices()), _array(x.crow_indices()))
    return sparse.csr_array(parts, shape=tuple(x.shape))
