"""What a party says of tables of its own: ``[columns]`` and ``[split]`` of its ``party.toml``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from atoll.data.split import Split
from atoll.data.table_columns import Columns
from atoll.data.table_files import Table
from atoll.errors import AtollError, unknown
from atoll.graph import Graph
from atoll.rng import server_stream

SIDES = ("nodes", "edges")
# Classes are agreed on by all, so they stand above; everything else is the party's own business.
_OPTIONS = {f.name: f.type for f in fields(Columns) if f.name != "class_names"}
_OF_SPLIT = {f.name: f.type for f in fields(Split)}


@dataclass(frozen=True)
class ByHand:
    """The tables of a folder made by hand: their files, columns and split.

    ``renamed`` has the common name of each feature column that is called otherwise here.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    split: Split | None = None
    seed: int = 0

    def over(self, columns: Columns) -> Columns:
        """Options for all parties, with this one's own laid over them."""
        own = replace(columns, **self.options)
        if self.split is not None and own.split:
            raise AtollError(
                f"[split] draws a split, and the column '{own.split}' has one (columns.split); "
                f"keep one of them."
            )
        return own

    def open(self, folder: Path, columns: Columns, text: Collection[str]) -> tuple[Table, Table]:
        """Nodes and edges, under the common names of their columns."""
        here = {common: own for own, common in self.renamed.items()}
        nodes = columns.read_nodes(_file(folder, "nodes", self), [here.get(t, t) for t in text])
        # A party without edges of its own is possible, one without nodes is not.
        edges = columns.read_edges(_file(folder, "edges", self), may_be_empty=True)
        if self.options:
            nodes, edges = (replace(table, prefix="columns.") for table in (nodes, edges))
        for own, common in self.renamed.items():
            nodes.column(own, "features")
            if common in nodes.frame.columns and common not in self.renamed:
                raise AtollError(
                    f"{nodes.source}: '{own}' would be called '{common}' (columns.features), but "
                    f"there is such a column already; leave it out of the table or rename it."
                )
        return replace(nodes, frame=nodes.frame.rename(dict(self.renamed))), edges

    def divided(self, graph: Graph) -> Graph:
        """The party's graph with the split that it draws by itself, if it does."""
        if self.split is None:
            return graph
        return self.split.apply(graph, server_stream(self.seed, 0, "split of a party"))


def read_by_hand(file: Path, entries: Mapping[str, Any]) -> ByHand:
    """What ``[columns]`` and ``[split]`` of a file say; every mistake is one sentence."""
    given = dict(entries.get("columns", {}))
    files = {}
    for side in SIDES:
        if side in given:
            files[side] = _typed(file, f"columns.{side}", given.pop(side), "str")
    renamed: dict[str, str] = {}
    if isinstance(given.get("features"), dict):
        common = {str(k): v for k, v in given["features"].items()}
        renamed = {
            _typed(file, f"columns.features.{k}", own, "str"): k for k, own in common.items()
        }
        given["features"] = list(common)
    options = _checked(file, "columns", given, _OPTIONS)
    drawn = dict(entries.get("split", {}))
    seed = _typed(file, "split.seed", drawn.pop("seed", 0), "int")
    values = _checked(file, "split", drawn, _OF_SPLIT)
    with_them = ByHand(files, options, {own: c for own, c in renamed.items() if own != c})
    try:
        split = Split(**values) if "split" in entries else None
        if split is not None and split.kind == "public":
            raise AtollError("split.kind is 'public', which draws nothing; set columns.split.")
        by_hand = replace(with_them, split=split, seed=seed)
        by_hand.over(Columns())
    except AtollError as problem:
        raise AtollError(f"'{file}': {str(problem).replace('data.', 'columns.')}") from None
    return by_hand


def _file(folder: Path, side: str, by_hand: ByHand) -> Path:
    """The file of a side: the one that is named, or the one called like it."""
    if side in by_hand.files:
        named = folder / by_hand.files[side]
        if not named.is_file():
            raise AtollError(
                f"there is no file '{named}' (columns.{side} of its party.toml); correct the name."
            )
        return named
    files = [folder / f"{side}{suffix}" for suffix in (".parquet", ".csv")]
    found = [file for file in files if file.is_file()]
    if len(found) != 1:
        has = (
            "both {} and {}; keep one."
            if found
            else "neither {} nor {}; add one, or name the file under [columns] of its party.toml."
        )
        raise AtollError(
            f"the party's folder '{folder}' has " + has.format(*(file.name for file in files))
        )
    return found[0]


def _checked(
    file: Path, section: str, given: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    checked = {}
    for key, value in given.items():
        if key not in known:
            raise unknown(f"key of '{file}' [{section}]", key, sorted(known))
        checked[key] = _typed(file, f"{section}.{key}", value, str(known[key]))
    return checked


def _typed(file: Path, where: str, value: Any, kind: str) -> Any:
    """A value of TOML as an option's field has it."""
    if kind.startswith("tuple"):
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        raise AtollError(f"'{file}': {where} must be a list of names; correct it.")
    wanted: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float)}
    words = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    fits = isinstance(value, wanted.get(kind, (str,)))
    if not fits or (isinstance(value, bool) and kind != "bool"):
        raise AtollError(f"'{file}': {where} must be {words.get(kind, 'text')}; correct it.")
    return value
