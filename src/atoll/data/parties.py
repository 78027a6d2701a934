"""A federation whose parties' graphs lie in folders, one per party."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from atoll.data.base import Dataset, datasets
from atoll.data.party_read import (
    OwnTables,
    is_fitted_later,
    load_graphs,
    load_party,
    parties_preprocessing,
    tables_by_hand,
)
from atoll.data.party_write import refuse_unlike, write_parties
from atoll.data.table_columns import Columns
from atoll.errors import AtollError
from atoll.graph import (
    SPLITS,
    Features,
    Graph,
    Holding,
    View,
    dense,
    sorted_distinct,
    stacked,
)

__all__ = ["Parties", "load_party", "merge", "write_parties"]


@datasets.register("parties")
@dataclass(frozen=True, kw_only=True)
class Parties(Columns, Dataset):
    """Your own parties: a folder with one folder per party, from atoll split or made by hand.

    Use it with the partition ``natural``, which gives back each party's own graph. A folder made
    by hand holds ``nodes.csv`` or ``nodes.parquet`` and ``edges.csv`` or ``edges.parquet``; ids
    are what parties recognise the same entity by, and the column options say what the rest is.

    Parties may hold the same node and differ in what they know of it. Each keeps its own features,
    and trains and tests only on labels and splits of its own; in the whole graph such a node has
    the features of the first party and everybody's label, and an edge that several hold has the
    weight of the first. Two different labels, or two different splits, for one node are an error.

    ``standardise`` and ``missing`` work with each party's own training nodes, as a party alone
    would. What a folder's ``party.toml`` says under ``[columns]`` wins over the options here.
    """

    folder: str = ""

    def load(self) -> Graph:
        folders = party_folders(self.folder)
        return merge(load_graphs(folders, self), self._name)

    @property
    def _name(self) -> str:
        return Path(self.folder).name or "parties"

    def fitted(self, graph: Graph) -> Graph:
        """Scales and fillings of each party, from its own training nodes."""
        folders = party_folders(self.folder)
        if not is_fitted_later(folders, self):
            return graph
        train = [graph.held(holding).train for holding in graph.holdings]
        whole = merge(load_graphs(folders, self, train), self._name)
        return replace(whole, **{split: getattr(graph, split) for split in SPLITS})

    def preprocessing(self, train: np.ndarray | None = None) -> dict[str, Any] | None:
        folders = party_folders(self.folder)
        if not tables_by_hand(folders, self):
            return None
        whole = self.load()
        if train is not None:
            whole = replace(whole, train=train)
        own = [whole.held(holding).train for holding in whole.holdings]
        return parties_preprocessing(folders, self, own)

    def tables(self) -> tuple[OwnTables, ...]:
        """How each party's own tables are read; none where a folder has final features."""
        return tables_by_hand(party_folders(self.folder), self)


def party_folders(folder: str) -> list[Path]:
    """The parties' folders by name; numbers in names count as numbers."""
    if not folder:
        raise AtollError("data.folder is not given; set it to the folder of the parties' folders.")
    home = Path(folder)
    if home.exists() and not home.is_dir():
        raise AtollError(f"'{folder}' (data.folder) is a file; name the folder of all parties.")
    if not home.is_dir():
        raise AtollError(f"there is no folder '{folder}' (data.folder); check the path.")
    if any((home / f"nodes.{suffix}").exists() for suffix in ("csv", "parquet")):
        raise AtollError(
            f"'{folder}' (data.folder) is the folder of a single party; name the one above it."
        )
    inside = [path for path in home.iterdir() if path.is_dir() and not path.name.startswith(".")]
    if not inside:
        raise AtollError(
            f"'{folder}' (data.folder) has no folder in it; put one for each party there."
        )

    def numeric(path: Path) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", path.name)
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    return sorted(inside, key=numeric)


def merge(parties: Sequence[Graph], name: str) -> Graph:
    """One graph of all parties' nodes and edges, with a holding for each party.

    Nodes with the same id are one node. ``merged.held(holding)`` is that party's graph again:
    nodes and edges in the same order, with its own features, labels and masks.
    """
    refuse_unlike(parties)
    ids = _common_ids(parties)
    unique, first, place = np.unique(ids, return_index=True, return_inverse=True)
    # Nodes in order of first appearance, so that the first party's come first and in its order.
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    starts = np.cumsum([0, *(party.nodes for party in parties)])
    nodes = [rank[place[a:b]] for a, b in pairwise(starts)]
    keys = [
        at[party.edges[0]] * len(unique) + at[party.edges[1]]
        for at, party in zip(nodes, parties, strict=True)
    ]
    every_key = sorted_distinct(np.concatenate(keys))
    weights = _merged_weights(parties, keys, every_key)
    x = stacked([party.x for party in parties])[first[order]]
    y = _merged_labels(parties, nodes, unique[order])
    masks = _merged_masks(parties, nodes, unique[order])
    used = masks["train"] | masks["val"] | masks["test"]
    holdings = [
        Holding(
            party.name,
            at,
            np.searchsorted(every_key, own),
            view=View(
                x=None if _same(party.x, x[at]) else party.x,
                known=_unless_equal(party.y >= 0, y[at] >= 0),
                used=_unless_equal(_in_splits(party), used[at]),
                weights=_own_weights(party, weights, np.searchsorted(every_key, own)),
            ),
        )
        for party, at, own in zip(parties, nodes, keys, strict=True)
    ]
    return Graph(
        x=x,
        edges=np.stack([every_key // len(unique), every_key % len(unique)]),
        weights=weights,
        y=y,
        classes=parties[0].classes,
        ids=unique[order],
        name=name,
        graph_of=_merged_graphs(parties, len(unique)),
        holdings=tuple(holdings),
        class_names=parties[0].class_names,
        feature_names=parties[0].feature_names,
        train=masks["train"],
        val=masks["val"],
        test=masks["test"],
    )


def _merged_graphs(parties: Sequence[Graph], nodes: int) -> np.ndarray | None:
    """All parties' small graphs, one party after the other, where they hold many."""
    graph_of_K = [party.graph_of for party in parties if party.graph_of is not None]
    if not graph_of_K:
        return None
    if sum(map(len, graph_of_K)) != nodes:
        raise AtollError("two parties hold a node of the same id; small graphs are not shared.")
    counts = np.cumsum([0, *(int(of[-1]) + 1 for of in graph_of_K)])
    return np.concatenate([of + c for of, c in zip(graph_of_K, counts, strict=False)])


def _common_ids(parties: Sequence[Graph]) -> np.ndarray:
    """All ids, one party after the other; as text where any is."""
    text = any(party.ids.dtype.kind == "U" for party in parties)
    return np.concatenate([party.ids.astype(str) if text else party.ids for party in parties])


def _merged_weights(
    parties: Sequence[Graph], keys: Sequence[np.ndarray], every_key: np.ndarray
) -> np.ndarray | None:
    """The weight of each edge as the first party that holds it has it."""
    if parties[0].weights is None:
        return None
    weights = np.zeros(len(every_key))
    for party, own in reversed(list(zip(parties, keys, strict=True))):
        weights[np.searchsorted(every_key, own)] = party.weights
    return weights


def _own_weights(party: Graph, weights: np.ndarray | None, at: np.ndarray) -> np.ndarray | None:
    if weights is None or party.weights is None:
        return None
    return _unless_equal(party.weights, weights[at])


def _merged_labels(
    parties: Sequence[Graph], nodes: Sequence[np.ndarray], ids: np.ndarray
) -> np.ndarray:
    """Every label that any party knows."""
    y = np.full(len(ids), -1, dtype=np.int64)
    known_from = np.full(len(ids), -1)
    for k, (party, at) in enumerate(zip(parties, nodes, strict=True)):
        before, known = y[at], party.y >= 0
        clash = np.flatnonzero(known & (before >= 0) & (before != party.y))
        if len(clash):
            row = clash[0]
            name = party.class_names or [str(c) for c in range(party.classes)]
            raise AtollError(
                f"the party '{parties[known_from[at[row]]].name}' labels the node '{ids[at[row]]}' "
                f"{name[before[row]]}, the party '{party.name}' {name[party.y[row]]}; correct one "
                f"of them or leave one empty, or, if each party numbers nodes of its own, put its "
                f"name before its ids."
            )
        new = at[known & (before < 0)]
        known_from[new] = k
        y[at[known]] = party.y[known]
    return y


def _merged_masks(
    parties: Sequence[Graph], nodes: Sequence[np.ndarray], ids: np.ndarray
) -> dict[str, np.ndarray]:
    """The union of the parties' splits; nobody may test on what another trains on."""
    split = np.full(len(ids), -1)
    known_from = np.full(len(ids), -1)
    for k, (party, at) in enumerate(zip(parties, nodes, strict=True)):
        for number, name in enumerate(SPLITS):
            mine = at[getattr(party, name)]
            clash = mine[(split[mine] >= 0) & (split[mine] != number)]
            if len(clash):
                raise AtollError(
                    f"the party '{parties[known_from[clash[0]]].name}' has the node "
                    f"'{ids[clash[0]]}' in {SPLITS[split[clash[0]]]}, the party '{party.name}' in "
                    f"{name}; put it into the same split in both."
                )
            known_from[mine[split[mine] < 0]] = k
            split[mine] = number
    return {name: split == number for number, name in enumerate(SPLITS)}


def _same(a: Features, b: Features) -> bool:
    if sparse.issparse(a) and sparse.issparse(b):
        return bool((a != b).nnz == 0)
    return np.array_equal(dense(a), dense(b))


def _in_splits(party: Graph) -> np.ndarray:
    chosen: np.ndarray = party.train | party.val | party.test
    return chosen


def _unless_equal(own: np.ndarray, common: np.ndarray) -> np.ndarray | None:
    return None if np.array_equal(own, common) else own
