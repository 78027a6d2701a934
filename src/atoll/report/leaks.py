"""What attacks found in a run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from atoll.privacy.attacks import Finding


def leak_table(found: Sequence[Finding]) -> Table | str:
    """One row per attack, attacker and kind of message."""
    if not found:
        return "Nothing was sent that these attacks could use."
    table = Table(caption="mean and standard deviation over the victims; see docs/privacy-leaks.md")
    for heading in ("attack", "attacker", "on what", "measure"):
        table.add_column(heading)
    for heading in ("score", "std", "chance", "features alone", "victims", "round"):
        table.add_column(heading, justify="right")
    for one in found:
        numbers = (one.score, one.std, one.chance, one.features_alone)
        table.add_row(
            one.attack, one.attacker, one.of, one.measure,
            *("-" if n != n else f"{n:.3f}" for n in numbers), str(one.victims), str(one.round),
        )  # fmt: skip
    return table
