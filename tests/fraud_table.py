"""A made-up table of bank accounts, some of them fraudulent, as untidy as such tables are.

Fraud shows in the accounts' own numbers, weakly, and in whom they send money to: fraudulent
accounts pass larger sums on to one another. Each bank sees its own share, so four banks together
know more of both than one alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BANKS = ("alpine", "coastal", "metro", "rural")
KINDS = ("private", "business", "student")
COUNTRIES = ("AT", "DE", "FR", "IT", "PL")


@dataclass(frozen=True)
class FraudTable:
    """Where the two files are, and what is true of them."""

    nodes: Path
    edges: Path
    accounts: int
    transfers: int
    fraudulent: int
    gaps: int


def write_fraud_table(
    folder: Path,
    *,
    accounts: int = 3000,
    seed: int = 0,
    fraud: float = 0.025,
    gaps: float = 0.04,
    separator: str = ",",
    decimal: str = ".",
    new: int = 0,
) -> FraudTable:
    """Writes ``accounts.csv`` and ``transfers.csv`` into a folder.

    With ``new``, so many further accounts that nobody has judged yet: ``new_accounts.csv`` without
    ``fraud``, ``new_transfers.csv`` with every transfer from or to them, and ``truth.csv``.

    Accounts: ``account`` (text ids), ``bank``, ``balance``, ``age_days``, ``logins`` (numbers with
    a share of ``gaps``), ``kind``, ``country`` (categories, some empty), ``opened`` (ISO dates),
    ``fraud`` (yes or no). Transfers: ``from``, ``to``, ``amount``, ``when``; three of four stay
    within a bank. Decimal commas and other separators as asked for.
    """
    # Not the seed alone, from which a run draws its splits.
    dice = np.random.default_rng([seed, 22])
    known, accounts = accounts, accounts + new
    bank = dice.choice(len(BANKS), size=accounts, p=[0.35, 0.3, 0.2, 0.15])
    bad = np.zeros(accounts, dtype=bool)
    bad[dice.choice(accounts, size=round(fraud * accounts), replace=False)] = True
    numbers = {
        "balance": np.exp(dice.normal(7.5 - 0.5 * bad, 1.0)).round(2),
        "age_days": np.exp(dice.normal(7.0 - 0.6 * bad, 0.7)).round(0),
        "logins": dice.poisson(np.where(bad, 13, 9)).astype(float),
    }
    kind = dice.choice(len(KINDS), size=accounts, p=[0.7, 0.2, 0.1])
    country = dice.choice(len(COUNTRIES), size=accounts)
    holes = {name: dice.random(accounts) < gaps for name in (*numbers, "country")}
    ids = [f"AC-{number:06d}" for number in dice.permutation(accounts) + 17]

    def written(name: str, row: int) -> str:
        value = f"{numbers[name][row]:.2f}" if name == "balance" else f"{numbers[name][row]:.0f}"
        return "" if holes[name][row] else value.replace(".", decimal)

    def account(row: int) -> list[str]:
        days = int(numbers["age_days"][row])
        return [
            ids[row],
            BANKS[bank[row]],
            *(written(name, row) for name in numbers),
            KINDS[kind[row]],
            "" if holes["country"][row] else COUNTRIES[country[row]],
            str(np.datetime64("2026-06-01") - np.timedelta64(days, "D")),
            "yes" if bad[row] else "no",
        ]

    def transfer(source: int, target: int, amount: float, day: int) -> list[str]:
        moment = np.datetime64("2026-01-01") + np.timedelta64(int(day), "D")
        return [ids[source], ids[target], f"{amount:.2f}".replace(".", decimal), str(moment)]

    def write(name: str, header: list[str], rows: Iterable[list[str]]) -> Path:
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=separator).writerows([header, *rows])
        return folder / name

    folder.mkdir(parents=True, exist_ok=True)
    columns = ["account", "bank", *numbers, "kind", "country", "opened", "fraud"]
    nodes = write("accounts.csv", columns, map(account, range(known)))
    listed, ends = _transfers(bank, bad, dice), ["from", "to", "amount", "when"]
    transfers = [t for t in listed if max(t[:2]) < known]
    edges = write("transfers.csv", ends, (transfer(*t) for t in transfers))
    if new:
        rows = [account(row) for row in range(known, accounts)]
        write("new_accounts.csv", columns[:-1], (row[:-1] for row in rows))
        write("new_transfers.csv", ends, (transfer(*t) for t in listed if max(t[:2]) >= known))
        write("truth.csv", ["account", "fraud"], ([row[0], row[-1]] for row in rows))
    empty = sum(int(holes[name][:known].sum()) for name in numbers)
    return FraudTable(nodes, edges, known, len(transfers), int(bad[:known].sum()), empty)


def _transfers(
    bank: np.ndarray, bad: np.ndarray, dice: np.random.Generator
) -> list[tuple[int, int, float, int]]:
    """Directed transfers with amounts; fraudulent accounts find one another."""
    rows = np.arange(len(bank))
    by_bank = [rows[bank == b] for b in range(len(BANKS))]
    bad_rows = rows[bad]
    bad_by_bank = [rows[bad & (bank == b)] for b in range(len(BANKS))]
    listed = []
    for source in rows:
        for _ in range(1 + dice.poisson(3.0 if bad[source] else 2.0)):
            inside = dice.random() < 0.75
            to_bad = bad[source] and dice.random() < 0.3
            near, far = (bad_by_bank, bad_rows) if to_bad else (by_bank, rows)
            among = near[bank[source]] if inside else far
            target = int(dice.choice(among))
            if target == source:
                continue
            size = 5.3 if to_bad else 4.5
            amount = float(np.exp(dice.normal(size, 0.8)))
            listed.append((int(source), target, amount, int(dice.integers(150))))
    return listed


if __name__ == "__main__":
    print(write_fraud_table(Path(), new=200))
