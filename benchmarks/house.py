"""The rooms of the house: who imports whom, lines of code per room, and a picture of both.

    python benchmarks/house.py [--src src/atoll] [--order docs/architecture.md] [--out house.svg]

A room is a package or module directly below ``src/atoll``; the order of rooms is read from the
block that starts with ``house`` in the architecture page. Imports within functions and for type
checking count like any other.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Import(NamedTuple):
    """One module of ours that imports another."""

    importer: str
    imported: str


def modules(src: Path) -> dict[str, Path]:
    """Every module of a package by its full name."""
    found = {}
    for path in sorted(src.rglob("*.py")):
        parts = (src.name, *path.relative_to(src).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(src: Path) -> list[Import]:
    """Every import of one module of the package by another, wherever it stands."""
    known = modules(src)
    found = []
    for importer, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                # ``from a import b`` imports the module a.b if there is one.
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [n if n in known else node.module for n in names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Modules that are imported by name, as registries and lazy commands do.
                names = [node.value] if "." in node.value else []
            found += [Import(importer, n) for n in names if n in known and n != importer]
    return sorted(set(found))


def room_of(module: str) -> str:
    """``methods`` for ``atoll.methods.fed_avg``; the package itself for ``atoll``."""
    return module.split(".")[1] if "." in module else module


def order(page: Path) -> dict[str, int]:
    """The floor of each room, 0 at the bottom, as the architecture page has it."""
    [block] = re.findall(r"```house\n(.*?)```", page.read_text(), re.S)
    floors = [re.split(r"\s{2,}", line)[0].split(", ") for line in block.strip().splitlines()]
    return {room: floor for floor, rooms in enumerate(reversed(floors)) for room in rooms}


def lines_of_code(path: Path) -> int:
    """Lines with code on them: neither blank nor comment nor docstring."""
    text = path.read_text()
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in nothing | {tokenize.ENDMARKER}
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - strings)


def rooms(src: Path) -> dict[str, int]:
    """Lines of code per room."""
    total: dict[str, int] = defaultdict(int)
    for module, path in modules(src).items():
        total[room_of(module)] += lines_of_code(path)
    return dict(total)


def between_rooms(src: Path) -> dict[tuple[str, str], int]:
    """How many imports go from one room to another."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for importer, imported in imports(src):
        if room_of(importer) != room_of(imported):
            counts[room_of(importer), room_of(imported)] += 1
    return dict(counts)


def draw(src: Path, floors: dict[str, int], out: Path) -> None:
    """Who (rows) imports whom (columns), in the order of floors: what goes upwards is orange."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # The same picture gives the same file, with text that stays text.
    plt.rcParams |= {"svg.hashsalt": "atoll", "svg.fonttype": "none"}
    sizes, counts = rooms(src), between_rooms(src)
    ordered = sorted(sizes, key=lambda room: (-floors.get(room, -1), room))
    place = {room: i for i, room in enumerate(ordered)}
    figure, axes = plt.subplots(figsize=(8.2, 8.2))
    for (one, other), count in counts.items():
        upwards = floors.get(one, -1) <= floors.get(other, -1)
        colour = "#d55e00" if upwards else "#9ecae1"
        x, y = place[other], place[one]
        axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, color=colour, lw=0))
        axes.text(x, y, str(count), ha="center", va="center", fontsize=6)
    for i in range(len(ordered)):
        axes.add_patch(plt.Rectangle((i - 0.5, i - 0.5), 1, 1, color="#444444", lw=0))
    axes.set_xticks(range(len(ordered)), ordered, rotation=90, fontsize=7)
    axes.set_yticks(range(len(ordered)), [f"{r}  ({sizes[r]:,})" for r in ordered], fontsize=7)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, len(ordered) - 0.5)
    axes.set_ylim(len(ordered) - 0.5, -0.5)
    axes.set_aspect("equal")
    for i in range(len(ordered) + 1):
        axes.axhline(i - 0.5, color="#dddddd", lw=0.4, zorder=0)
        axes.axvline(i - 0.5, color="#dddddd", lw=0.4, zorder=0)
    metadata = {"Date": None} if out.suffix == ".svg" else None
    figure.savefig(out, bbox_inches="tight", metadata=metadata)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--src", type=Path, default=ROOT / "src" / "atoll")
    parser.add_argument("--order", type=Path, default=ROOT / "docs" / "architecture.md")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    floors, sizes = order(chosen.order), rooms(chosen.src)
    print("| room | lines of code | imported by |\n|---|---|---|")
    users: dict[str, set[str]] = defaultdict(set)
    for one, other in between_rooms(chosen.src):
        users[other].add(one)
    for room in sorted(sizes, key=lambda r: (-floors.get(r, -1), r)):
        print(f"| `{room}` | {sizes[room]} | {', '.join(sorted(users[room]))} |")
    print(f"| in all | {sum(sizes.values())} | |")
    if chosen.out is not None:
        draw(chosen.src, floors, chosen.out)


if __name__ == "__main__":
    main()
