"""What two tables hold and how they would be read: guessed, and said all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from atoll.data.check_columns import LISTED, Profile, profiles, sample_of
from atoll.data.check_files import Opened, open_file
from atoll.data.check_found import Check
from atoll.data.check_roles import (
    Ends,
    find_ends,
    find_label,
    find_named,
    find_owner,
    find_weight,
    possible_labels,
    possible_owners,
)
from atoll.data.check_training import suggested
from atoll.data.table_numbers import MISSING_WORDS
from atoll.data.tables import Tables
from atoll.errors import AtollError, unknown
from atoll.graph import SPLITS

_LOG_ABOVE = 5.0


def check_tables(
    nodes: str | Path,
    edges: str | Path,
    *,
    id: str = "",
    label: str = "",
    owner: str = "",
    weight: str = "",
    directed: bool = False,
    drop_unknown: bool = False,
    leave_out: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Check:
    """What two files hold, how each column would be used, and everything that is wrong.

    ``leave_out`` and ``categorical`` say how columns of the nodes are used, whatever they hold.
    """
    check = Check(settings={"unknown_ends": "drop"} if drop_unknown else {})
    opened = {}
    for side, path in (("nodes", nodes), ("edges", edges)):
        try:
            opened[side] = open_file(path, side, check.error, check.note)
        except AtollError as problem:
            check.error(str(problem))
    check.columns = [p for side, file in opened.items() for p in profiles(file, side, {})]
    given = {"id": id, "label": label, "owner": owner}
    if len(opened) == 2:
        asked = dict.fromkeys(leave_out, "left out: as asked") | dict.fromkeys(categorical, LISTED)
        _check_both(check, opened["nodes"], opened["edges"], given, weight, directed, asked)
    return check


def _check_both(
    check: Check,
    nodes: Opened,
    edges: Opened,
    given: dict[str, str],
    weight: str,
    directed: bool,
    asked: dict[str, str],
) -> None:
    settings = check.settings
    settings |= {"nodes": nodes.path, "edges": edges.path}
    for option, name in (*given.items(), ("weight", weight)):
        table = edges if option == "weight" else nodes
        if name and name not in table.frame.columns:
            check.error(
                str(unknown(f"column of '{table.path}' (--{option})", name, table.frame.columns))
            )
            given = given | {option: ""}
            weight = "" if option == "weight" else weight
    for name, use in asked.items():
        if name not in nodes.frame.columns:
            option = "categorical" if use == LISTED else "leave-out"
            text = f"column of '{nodes.path}' (--{option})"
            check.error(str(unknown(text, name, nodes.frame.columns)))
    ends = find_ends(nodes, edges, given["id"])
    if ends is None:
        swapped = find_ends(edges, nodes) is not None
        check.error(
            f"no column of '{nodes.path}' holds the ids that two columns of '{edges.path}' refer "
            + ("to; the nodes come first, then the edges." if swapped else "to; check the files.")
        )
        return
    label = given["label"] or find_label(nodes, taken={ends.id, given["owner"]})
    owner = given["owner"] or find_owner(nodes, taken={ends.id, label})
    if not label:
        few = possible_labels(nodes, {ends.id, owner})
        there = f" (with few values there are: {', '.join(few)})" if few else ""
        check.error(
            f"no column of '{nodes.path}' is called like a label; say which one is with "
            f"--label{there}."
        )
    split = find_named(nodes, ("split", "part", "fold"), SPLITS, taken={ends.id, label, owner})
    weight = weight or find_weight(edges, taken={ends.source, ends.target}, note=check.note)
    settings |= {"id": ends.id, "label": label, "source": ends.source, "target": ends.target}
    settings |= {name: value for name, value in (("owner", owner), ("split", split)) if value}
    roles = asked | {ends.id: "id", label: "label", owner: "owner", split: "split"}
    found = profiles(nodes, "nodes", {k: v for k, v in roles.items() if k}, check.error, check.note)
    roles = {ends.source: "source", ends.target: "target", weight: "weight"}
    check.columns = found + profiles(edges, "edges", {k: v for k, v in roles.items() if k})
    _check_ids(check, nodes, edges, ends)
    if label:
        _check_labels(check, nodes, label, split, owner)
    if owner:
        _check_owners(check, nodes, owner)
    else:
        names = possible_owners(nodes, {ends.id, label, split})
        there = f" (names are in: {', '.join(names)})" if names else ""
        check.note(
            f"no column is called like an owner, so the graph is cut into parties by its edges; if "
            f"a column says whose each node is, name it with --owner{there}."
        )
    if weight:
        _check_weights(check, edges, weight)
    _reading(check, nodes, edges, found, directed)
    if check.usable:
        _try(check)


def _reading(
    check: Check, nodes: Opened, edges: Opened, found: list[Profile], directed: bool
) -> None:
    """The options that say how files, numbers and features are read."""
    settings = check.settings
    if not any(column.use.startswith("feature") for column in found):
        check.error(f"'{nodes.path}' has no column that could be a feature; add at least one.")
    if any(column.use.startswith("left out") for column in found):
        settings["features"] = [c.column for c in found if c.use.startswith("feature")]
    categorical = [c.column for c in found if c.use == LISTED]
    if categorical:
        settings["categorical"] = categorical
    if any(
        c.missing and c.type in ("number", "date") and c.use.startswith("feature") for c in found
    ):
        settings["missing"] = "median"
    settings["standardise"] = True
    settings["directed"] = directed
    for option, mark, usual in (
        ("separator", nodes.separator, ","),
        ("decimal", nodes.table.decimal, ""),
        ("edges_separator", edges.separator, nodes.separator),
        ("edges_decimal", edges.table.decimal, nodes.table.decimal),
    ):
        if mark != usual:
            settings[option] = mark or "."
    if not directed:
        check.note("edges count both ways; --directed keeps their directions.", edges.frame.height)


def _check_ids(check: Check, nodes: Opened, edges: Opened, ends: Ends) -> None:
    ids = nodes.text(ends.id)
    again = (~ids.is_first_distinct() & ids.is_not_null()).arg_true()
    _count(check, nodes, ends.id, ids.is_null(), "the id is missing; give every node one")
    if len(again):
        check.error(
            f"'{nodes.path}', column '{ends.id}': {len(again)} of {len(ids)} rows repeat the id of "
            f"an earlier one ({sample_of(nodes, ids, again)}); give every node one row.",
            len(again),
        )
    known = ids.drop_nulls().unique()
    for column in (ends.source, ends.target):
        keys = edges.text(column)
        _count(check, edges, column, keys.is_null(), "the id is missing; give every edge two ends")
        lost = (keys.is_not_null() & ~keys.is_in(known.implode())).arg_true()
        if len(lost):
            where = f"'{edges.path}', column '{column}': {len(lost)} of {len(keys)} ends"
            first = f"are no node of '{nodes.path}' ({sample_of(edges, keys, lost)})"
            if check.settings.get("unknown_ends") == "drop":
                check.note(f"{where} {first}: these edges are left out.", len(lost))
            else:
                remedy = "add these nodes, or leave the edges out with --drop-unknown."
                check.error(f"{where} {first}; {remedy}", len(lost))
    pairs = polars.DataFrame({"a": edges.text(ends.source), "b": edges.text(ends.target)})
    loops = int((pairs["a"] == pairs["b"]).sum())
    if loops:
        check.note(f"{loops} edges lead from a node to itself and are dropped.", loops)
    repeated = int(pairs.height - pairs.unique().height)
    if repeated:
        check.note(
            f"{repeated} edges repeat an earlier one: their weights are added, or they are dropped "
            f"where edges have none.",
            repeated,
        )
    alone = len(known) - int(known.is_in(polars.concat([pairs["a"], pairs["b"]]).implode()).sum())
    if alone:
        check.note(f"{alone} of {len(known)} nodes have no edge.", alone)


def _count(check: Check, file: Opened, column: str, where: polars.Series, what: str) -> None:
    rows = where.arg_true()
    if len(rows):
        place = file.table.place(int(rows[0]))
        check.error(
            f"'{file.path}', column '{column}': in {len(rows)} of {len(where)} rows {what} (first: "
            f"{place}).",
            len(rows),
        )


def _check_labels(check: Check, nodes: Opened, label: str, split: str, owner: str) -> None:
    labels = nodes.text(label)
    if labels.drop_nulls().n_unique() < 2:
        check.error(
            f"'{nodes.path}', column '{label}': there is one class; two are needed to learn."
        )
        return
    if labels.null_count():
        check.note(
            f"{labels.null_count()} of {len(labels)} nodes have no label.", labels.null_count()
        )
    _check_unknown(check, nodes, label, labels)
    parts, owners = (nodes.text(name) if name else None for name in (split, owner))
    check.training, why = suggested(labels, parts, owners)
    for sentence in why:
        check.note(sentence)


def _check_unknown(check: Check, nodes: Opened, label: str, labels: polars.Series) -> None:
    """Words that likely stand for an unknown label, but would be classes."""
    plain = labels.str.strip_chars().str.to_lowercase()
    rows = plain.is_in([*MISSING_WORDS, "unknown"]).fill_null(False).arg_true()
    if len(rows):
        check.note(
            f"in {len(rows)} rows the label is a word for an unknown one "
            f"({sample_of(nodes, labels, rows)}) and counts as a class of its own; empty these "
            f"entries of '{label}' if they are unknown.",
            len(rows),
        )


def _check_owners(check: Check, nodes: Opened, owner: str) -> None:
    owners = nodes.text(owner)
    _count(check, nodes, owner, owners.is_null(), "the owner is missing; give every node one")
    sizes = owners.drop_nulls().value_counts(sort=True)
    if sizes.height < 2:
        check.error(
            f"'{nodes.path}', column '{owner}': there is one owner; a federation has several."
        )
        return
    check.note(
        f"{sizes.height} owners, from {sizes.row(-1)[1]} ('{sizes.row(-1)[0]}') to "
        f"{sizes.row(0)[1]} nodes ('{sizes.row(0)[0]}').",
        sizes.height,
    )


def _check_weights(check: Check, edges: Opened, weight: str) -> None:
    numbers = edges.numbers(weight)
    where: dict[str, Callable[[], polars.Series]] = {
        "the weight is empty or no number": lambda: numbers.is_null() | numbers.is_nan(),
        "the weight is negative": lambda: numbers < 0,
        "the weight is infinite": lambda: numbers.is_infinite(),
    }
    for what, test in where.items():
        _count(check, edges, weight, test().fill_null(False), f"{what}; weights are at least 0")
    check.settings["weight"] = weight
    median = float(np.nan_to_num(numbers.drop_nulls().median() or 0.0))  # type: ignore[arg-type]
    if median > _LOG_ABOVE:
        check.settings["weight_scale"] = "log"
        check.note(
            f"the column '{weight}' weighs the edges; its median is {median:g}, so log(1 + weight) "
            f"is used, or a node itself, which weighs 1, would count for nothing.",
            len(numbers),
        )
    else:
        check.note(f"the column '{weight}' weighs the edges.", len(numbers))


def _try(check: Check) -> None:
    """Read the tables as they will be read; what is refused then is a problem now."""
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in check.settings.items()
    }
    try:
        Tables(**options).load()
    except AtollError as problem:
        check.error(str(problem))
