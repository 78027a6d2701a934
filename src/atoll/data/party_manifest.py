"""A party's ``party.toml``: names, classes, categories and columns."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atoll.data.party_columns import ByHand, read_by_hand
from atoll.data.party_write import FORMAT
from atoll.errors import AtollError, unknown

FILE = "party.toml"
_KINDS: dict[str, type] = {
    "version": int,
    "name": str,
    "classes": int,
    "class_names": list,
    "categories": dict,
    "columns": dict,
    "split": dict,
    "features": dict,
    "counts": dict,
}
# They are listed one by one, so that a number alone must not fill the memory.
_MOST_CLASSES = 2**16
_KINDS_IN_WORDS = {int: "a whole number", str: "text", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class Written:
    """What the columns of a folder by :func:`write_parties` are."""

    nodes: int
    id: str
    label: str
    split: str
    sparse: bool
    features: int
    feature_columns: tuple[str, ...]
    feature_names: tuple[str, ...]
    weight: str = ""
    graph: str = ""


@dataclass(frozen=True)
class Manifest:
    """What ``party.toml`` says; a folder made by hand needs none, or only part of it.

    ``class_names`` and ``categories`` (by column) are what the parties agreed on, ``by_hand`` what
    a party says of its own tables.
    """

    name: str
    classes: int = 0
    class_names: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    written: Written | None = None
    by_hand: ByHand = field(default_factory=ByHand)

    @property
    def listed_classes(self) -> tuple[str, ...]:
        return self.class_names or tuple(str(number) for number in range(self.classes))


def read_manifest(folder: Path) -> Manifest:
    if folder.exists() and not folder.is_dir():
        raise AtollError(f"'{folder}' is a file; name the party's folder.")
    if not folder.is_dir():
        raise AtollError(f"there is no folder '{folder}'; check the path.")
    file = folder / FILE
    if not file.is_file():
        return Manifest(name=folder.name)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise AtollError(f"'{file}' can't be read as TOML ({problem}); write it anew.") from problem
    for key, value in entries.items():
        if key not in _KINDS:
            raise unknown(f"key of '{file}'", key, _KINDS)
        if not isinstance(value, _KINDS[key]) or isinstance(value, bool):
            raise AtollError(f"'{file}': {key} must be {_KINDS_IN_WORDS[_KINDS[key]]}; correct it.")
    if not 0 <= entries.get("classes", 0) <= _MOST_CLASSES:
        raise AtollError(f"'{file}': classes must be from 0 to {_MOST_CLASSES}; correct it.")
    if entries.get("version", FORMAT) != FORMAT:
        raise AtollError(
            f"'{file}' has the version {entries['version']}, this Atoll reads {FORMAT}; use the "
            f"Atoll that wrote it."
        )
    if "features" in entries and "split" in entries:
        raise AtollError(
            f"'{file}' is of a folder by atoll split, which has its split in a column; take out "
            f"[split]."
        )
    try:
        return _manifest(folder, entries)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise AtollError(
            f"'{file}' is damaged ({type(problem).__name__}: {problem}); fetch it anew."
        ) from problem


def _manifest(folder: Path, entries: dict[str, Any]) -> Manifest:
    return Manifest(
        name=entries.get("name", folder.name),
        classes=entries.get("classes", 0),
        class_names=_distinct("class_names", entries.get("class_names", ())),
        categories={
            column: _distinct(f"the categories of {column}", listed)
            for column, listed in entries.get("categories", {}).items()
        },
        written=_written(entries) if "features" in entries else None,
        by_hand=ByHand() if "features" in entries else read_by_hand(folder / FILE, entries),
    )


def _distinct(what: str, listed: Sequence[object]) -> tuple[str, ...]:
    """Names that are told apart: a row could not be matched with two of them."""
    names = tuple(str(name) for name in listed)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{twice}' stands twice in {what}")
    return names


def _written(entries: dict[str, Any]) -> Written:
    features, columns = entries["features"], entries["columns"]
    names = _distinct("the names of features", features["names"])
    return Written(
        nodes=int(entries["counts"]["nodes"]),
        id=str(columns["id"]),
        label=str(columns["label"]),
        split=str(columns["split"]),
        sparse={"sparse": True, "columns": False}[features["kind"]],
        features=int(features["count"]),
        feature_columns=names,
        feature_names=names if features["named"] else (),
        weight=str(columns.get("weight", "")),
        graph=str(columns.get("graph", "")),
    )


def refuse_other_classes(manifests: Sequence[Manifest]) -> None:
    listing = [manifest for manifest in manifests if manifest.listed_classes]
    for manifest in listing:
        ours, theirs = listing[0].listed_classes, manifest.listed_classes
        if ours != theirs:
            raise AtollError(
                f"the parties '{listing[0].name}' and '{manifest.name}' disagree on the classes in "
                f"their party.toml ({', '.join(ours)}; {', '.join(theirs)}); agree on one list."
            )


def agreed_categories(manifests: Sequence[Manifest]) -> dict[str, tuple[str, ...]]:
    agreed: dict[str, tuple[str, ...]] = {}
    for manifest in manifests:
        for column, listed in manifest.categories.items():
            if agreed.setdefault(column, listed) != listed:
                raise AtollError(
                    f"two parties disagree on the categories of '{column}' in their party.toml "
                    f"({', '.join(agreed[column])}; {', '.join(listed)}); agree on one list."
                )
    return agreed
