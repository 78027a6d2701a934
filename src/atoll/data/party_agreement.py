"""Whether folders of parties make one federation: looked at one by one, as the parties will."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from atoll.data.party_read import agreed, load_party, open_parties
from atoll.data.party_write import refuse_unlike
from atoll.data.table_columns import Columns
from atoll.errors import AtollError
from atoll.graph import Graph


def load_alike(folders: Sequence[Path]) -> list[Graph]:
    """Each party's graph as the party reads it alone; everything that is wrong is said at once."""
    graphs: list[Graph] = []
    wrong: list[str] = []
    for folder in folders:
        try:
            graphs.append(load_party(folder))
        except AtollError as problem:
            wrong.append(str(problem))
    if wrong:
        raise AtollError(all_of(wrong, len(folders)))
    try:
        refuse_unlike(graphs)
    except AtollError as problem:
        raise AtollError(f"{problem}{_remedy(folders)}") from None
    return graphs


def all_of(wrong: Sequence[str], folders: int) -> str:
    """One sentence, or a list of them below a heading."""
    if len(wrong) == 1:
        return wrong[0]
    return f"{len(wrong)} of {folders} folders can't be used:" + "".join(
        f"\n  {number}. {sentence}" for number, sentence in enumerate(wrong, start=1)
    )


def _remedy(folders: Sequence[Path]) -> str:
    """The lines that make parties read alike, where lines can."""
    parties = open_parties(folders, Columns())
    if not all(party.own for party in parties):
        return ""
    features, classes = agreed(parties, Columns())  # a column that only some have is said here
    lines: dict[str, Any] = {"class_names": list(classes)}
    listed = {f.column: list(f.categories) for f in features if f.kind == "category"}
    lines |= {"categories": listed} if listed else {}
    return f" These lines at the top of every party.toml do it:\n\n{tomli_w.dumps(lines)}"
