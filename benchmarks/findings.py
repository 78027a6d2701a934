"""Tables of docs/deployment.md that benchmarks fill in: kept as JSON, shown between two marks."""

from __future__ import annotations

import json
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[1] / "docs"
_KEPT = _DOCS / "results" / "deployment"
_PAGE = _DOCS / "deployment.md"
_NAMES = {"simulation": "in one process", "nvflare": "NVIDIA FLARE", "flower": "Flower"}
_FIRST = {"methods": "method", "faults": "fault", "seconds": "seconds"}


def keep(table: str, row: str, column: str, cell: str) -> None:
    """Note one finding and show it on the page, between ``<!-- TABLE -->`` and its end."""
    file = _KEPT / f"{table}.json"
    rows = json.loads(file.read_text()) if file.is_file() else {}
    rows.setdefault(row, {})[column] = cell
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, indent=1) + "\n")
    page = _PAGE.read_text()
    begin, end = f"<!-- {table} -->\n", f"<!-- /{table} -->\n"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{_PAGE} has no place for the table '{table}'")
    _PAGE.write_text(before + begin + _markdown(table, rows) + end + after)


def _markdown(table: str, rows: dict[str, dict[str, str]]) -> str:
    columns = [name for name in _NAMES if any(name in cells for cells in rows.values())]
    lines = [
        f"| {_FIRST[table]} | {' | '.join(_NAMES[c] for c in columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for row, cells in rows.items():
        lines.append(f"| {row} | {' | '.join(cells.get(c, '') for c in columns)} |")
    return "\n".join(lines) + "\n"
