"""Which columns are ids, ends, label, owner, split and weight: by content, then by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars

from atoll.data.check_files import Opened, Say
from atoll.data.table_weights import WEIGHT_NAMES

_LABELS = (
    "label", "class", "y", "fraud", "diagnosis", "outcome", "churn", "etiqueta", "clase", "fraude",
    "diagnóstico", "diagnostico", "étiquette", "classe", "diagnostic", "klasse", "betrug",
    "diagnose", "etichetta", "diagnosi", "target", "default", "risk",
)  # fmt: skip
_OWNERS = (
    "owner", "bank", "hospital", "site", "party", "institution", "organisation", "organization",
    "branch", "clinic", "company", "client", "silo", "banco", "institución", "clínica", "sucursal",
    "banque", "hôpital", "clinique", "agence", "institut", "krankenhaus", "klinik", "filiale",
    "banca", "ospedale", "clinica",
)  # fmt: skip
_MOST_CLASSES = 50
_MOST_OWNERS = 200
_SOURCES = (
    "source", "from", "src", "sender", "payer", "node1", "a", "von", "absender", "quelle", "de",
    "origen", "origine", "da",
)  # fmt: skip
_TARGETS = (
    "target", "to", "dst", "dest", "destination", "receiver", "recipient", "payee", "node2", "b",
    "nach", "an", "empfänger", "ziel", "destino", "destinataire",
)  # fmt: skip


@dataclass(frozen=True)
class Ends:
    """The ids of the node table, and the columns of the edge table that refer to them."""

    id: str
    source: str
    target: str


def find_ends(nodes: Opened, edges: Opened, id: str = "") -> Ends | None:
    """The column of ids is the one that two columns of the edge table refer to most."""
    best: tuple[float, Ends] | None = None
    for column in [id] if id else nodes.frame.columns:
        ids = nodes.text(column).drop_nulls().unique()
        # Repeated ids are a problem to be reported, but a column of few categories holds no ids.
        if not id and 2 * len(ids) < nodes.frame.height:
            continue
        shares = {
            end: float(edges.text(end).is_in(ids.implode()).fill_null(False).mean() or 0.0)  # type: ignore[arg-type]
            for end in edges.frame.columns
        }
        first, *rest = sorted(shares, key=lambda end: _likely(edges, end, shares[end]))[:2]
        if not rest or shares[rest[0]] == 0:
            continue
        pair = sorted((first, rest[0]), key=edges.frame.columns.index)
        if _from(pair[1]) > _from(pair[0]):
            pair.reverse()
        share = shares[first] + shares[rest[0]]
        if best is None or share > best[0]:
            best = share, Ends(column, *pair)
    return None if best is None else best[1]


def _likely(edges: Opened, end: str, share: float) -> tuple[float, int, int]:
    """Least for the likeliest end: small numbers, as counts are, may be ids of nodes as well."""
    return -round(share, 1), -abs(_from(end)), -_distinct(edges.text(end))


def _from(column: str) -> int:
    """Whether a column is called like the end that edges come from (1), or like the other (-1)."""
    words = {column.lower(), *re.split(r"[\W_]+", column.lower())}
    return bool(words & set(_SOURCES)) - bool(words & set(_TARGETS))


def find_label(nodes: Opened, taken: Collection[str]) -> str:
    """The column that is called like a label and holds a few classes."""
    return _by_name(nodes, _LABELS, _MOST_CLASSES, taken, parts=True)


def possible_labels(nodes: Opened, taken: Collection[str]) -> list[str]:
    """The columns that hold a few values, the fewest first."""
    found = {c: _distinct(nodes.text(c)) for c in nodes.frame.columns if c not in taken}
    few = [column for column, values in found.items() if 2 <= values <= _MOST_CLASSES]
    return sorted(few, key=lambda column: found[column])


def find_owner(nodes: Opened, taken: Collection[str]) -> str:
    """The column that is called like an owner and holds a few names."""
    found = _by_name(nodes, _OWNERS, _MOST_OWNERS, taken, parts=False)
    return found if found and not nodes.text(found).null_count() else ""


def possible_owners(nodes: Opened, taken: Collection[str]) -> list[str]:
    """The columns of text that hold a few names, and one in every row."""
    return [
        column
        for column in nodes.frame.columns
        if column not in taken
        and nodes.frame[column].dtype == polars.String
        and 2 <= _distinct(nodes.text(column)) <= _MOST_CLASSES
        and not nodes.text(column).null_count()
        and not nodes.numbers(column).is_not_null().any()
    ]


def find_named(
    nodes: Opened, names: Sequence[str], values: Collection[str], taken: Collection[str]
) -> str:
    """The column with one of some names that holds nothing but some values."""
    for column in nodes.frame.columns:
        if column.lower() in names and column not in taken:
            there = nodes.text(column).drop_nulls()
            if len(there) and there.is_in(list(values)).all():
                return column
    return ""


def find_weight(edges: Opened, taken: Collection[str], note: Say) -> str:
    """The column that is called like a weight, if all it holds are weights."""
    for column in edges.frame.columns:
        if column.lower() not in WEIGHT_NAMES or column in taken:
            continue
        numbers = edges.numbers(column)
        bad = numbers.is_null() | ~(numbers.is_finite() & (numbers >= 0))
        if not bad.any():
            return column
        note(
            f"the column '{column}' is not used as weights: {int(bad.sum())} of {len(bad)} entries "
            f"are no numbers of at least 0; correct them and name it with --weight.",
            int(bad.sum()),
        )
    for column in edges.frame.columns:
        numbers = edges.numbers(column)
        if column not in taken and (numbers.is_finite() & (numbers >= 0)).fill_null(False).all():
            note(
                f"the column '{column}' could weigh the edges and is not used; name it with "
                f"--weight.",
                len(numbers),
            )
    return ""


def _by_name(
    table: Opened, names: Sequence[str], most: int, taken: Collection[str], parts: bool
) -> str:
    """The first column with one of the names, the likelier names first; or with one in its name."""

    def fits(column: str) -> bool:
        return column not in taken and 2 <= _distinct(table.text(column)) <= most

    columns = [column for column in table.frame.columns if fits(column)]
    for name in names:
        for column in columns:
            if column.lower() == name:
                return column
    for name in names if parts else ():
        for column in columns:
            if name in re.split(r"[\W_]+", column.lower()):
                return column
    return ""


def _distinct(values: polars.Series) -> int:
    return values.drop_nulls().n_unique()
