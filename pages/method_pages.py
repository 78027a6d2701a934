"""One page per method: what its author wrote, and below it what the code says.

    python pages/method_pages.py        # writes docs/methods/*.md and docs/pictures/messages/*.svg

Above the mark of a page are the idea and the formulas, written by hand; below it the messages, the
options, our numbers beside the paper's and the docstring, written by this program. A method without
a page gets one. A test holds pages and code together.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from atoll.experiment.audit import Audit, audit_method
from atoll.experiment.choices import choose
from atoll.experiment.trial import ROUNDS
from atoll.methods.base import methods
from atoll.report.audit import sentences
from atoll.report.components import component_facts
from atoll.report.numbers import short
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe, load_recipe, recipe_names
from atoll.reproduction.results import load_cells
from messages import drawn_messages

DOCS = Path(__file__).parents[1] / "docs"
MARK = "<!-- Written by `make pages` from here on; edit the code, or what is above. -->"
_MOST_ROWS = 16
_FIRST = ("nothing but scores", "sums over sites only")


def written_pages() -> dict[Path, str]:
    """Every file that this program is responsible for, as it should be."""
    found: dict[Path, str] = {}
    own = [name for name in methods if not methods.offered_by(name)]
    audits = {name: audit_method(choose(method=name), ROUNDS, small=True) for name in own}
    guide = DOCS / "which-method.md"
    found[guide] = _between(guide.read_text(), "sent", _by_sight(audits))
    for name, audit in audits.items():
        found[DOCS / "pictures" / "messages" / f"{name}.svg"] = drawn_messages(audit)
        page = DOCS / "methods" / f"{name}.md"
        above = page.read_text().partition(MARK)[0] if page.is_file() else _first_words(name)
        below = "\n".join([MARK, "", *_sent(name, sentences(audit)), *_generated(name)])
        found[page] = above.rstrip() + "\n\n" + below.rstrip() + "\n"
    return found


def _between(page: str, mark: str, lines: list[str]) -> str:
    """A page with other lines between two of its marks."""
    first, last = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, _, rest = page.partition(first)
    return "\n".join([before + first, *lines, last + rest.partition(last)[2]])


def _by_sight(audits: dict[str, Audit]) -> list[str]:
    """Methods by what their server sees of a site, scores aside."""
    seen: dict[str, list[str]] = {}
    for name, audit in audits.items():
        seen.setdefault(_sight(audit), []).append(f"[{name}](methods/{name}.md)")
    order = sorted(seen, key=lambda what: (what not in _FIRST, what))
    rows = [f"| {what} | {', '.join(seen[what])} |" for what in order]
    return ["| the server sees | methods |", "|---|---|", *rows]


def _sight(audit: Audit) -> str:
    if audit.method.pooled:
        return "all data (simulated only)"
    if not any(c.use != "score" for c in audit.leaving):
        return _FIRST[0]
    if audit.sums_suffice:
        return _FIRST[1]
    kinds = sorted({c.kind for c in audit.seen_one_by_one if c.use == "content"})
    return f"every site's {', '.join(kinds)}"


def _first_words(name: str) -> str:
    doc = inspect.getdoc(methods[name]) or ""
    return f"# {name}\n\n{_as_markdown(doc.split(chr(10) * 2)[0])}"


def _sent(name: str, said: list[str]) -> list[str]:
    return [
        "## Messages",
        "",
        f"![What server and sites of {name} send](../pictures/messages/{name}.svg)",
        "",
        *(f"- {line}" for line in said),
        "",
        f"Every tensor with its shape: [what leaves a site](../what-leaves-a-site.md#{name}).",
        "",
    ]


def _generated(name: str) -> Iterator[str]:
    yield from _options(name)
    yield from _reproduced(name)
    doc = inspect.getdoc(methods[name]) or ""
    yield from ["## As the code has it", "", _as_markdown(doc), ""]
    source = Path(inspect.getsourcefile(methods[name]) or "")
    where = source.relative_to(DOCS.parent)
    yield f"`{where}`, and `atoll list methods {name}`."


def _options(name: str) -> Iterator[str]:
    facts = component_facts(methods, name, "method")
    yield from ["## Options", ""]
    parts = ", ".join(f"{part} `{default}`" for part, default in facts["parts"].items())
    yield from [f"Set with `--set method.OPTION=VALUE`. Unless others are chosen: {parts}.", ""]
    yield from ["| option | values | default |", "|---|---|---|"]
    for option in facts["options"]:
        values = option["values"].replace(" | ", ", ")
        yield f"| `{option['name']}` | {values} | {_code(option['default'])} |"
    yield ""


def _code(default: str) -> str:
    plain = {"True": "true", "False": "false"}.get(default, default)
    return f"`{plain}`" if plain else "empty"


def _reproduced(name: str) -> Iterator[str]:
    """The table of the method's own paper first, then links to all others that it is in."""
    found = {recipe: cells for recipe, cells in _kept().items() if _of(name, cells)}
    if not found:
        return
    first = min(found, key=lambda recipe: _distance(name, recipe))
    cells = _of(name, found[first])
    yield from ["## Our numbers", ""]
    link = f"[{first.header.title}](../results/{first.name}.md)"
    yield from [f"{link}, by `atoll reproduce {first.name}`.", ""]
    published = any(cell.paper is not None for cell in cells)
    heads = ["row", "column", "ours", "seeds", *(["published"] if published else [])]
    yield from ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for cell in cells[:_MOST_ROWS]:
        line = [cell.row, cell.column, _mean(cell), str(len(cell.values))]
        line += [] if not published else ["" if cell.paper is None else short(cell.paper)]
        yield "| " + " | ".join(line) + " |"
    if len(cells) > _MOST_ROWS:
        yield from ["", f"And {len(cells) - _MOST_ROWS} more cells on that page."]
    others = [
        f"[{recipe.name}](../results/{recipe.name}.md)" for recipe in found if recipe != first
    ]
    if others:
        yield from ["", f"Also in: {', '.join(others)}."]
    yield ""


def _mean(cell: Cell) -> str:
    return short(cell.ours) + (f" ± {short(cell.std)}" if len(cell.values) > 1 else "")


def _of(name: str, cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.settings.get("method", {}).get("name") == name]


def _distance(name: str, recipe: Recipe) -> tuple[bool, bool, bool, str]:
    paper: Any = methods[name].paper
    own = recipe.name.startswith(f"{name}/")
    return recipe.name not in paper, not own, "table" not in recipe.name, recipe.name


@lru_cache(maxsize=1)
def _kept() -> dict[Recipe, list[Cell]]:
    recipes = [load_recipe(name) for name in recipe_names()]
    found = {recipe: list(load_cells(DOCS / "results", recipe).values()) for recipe in recipes}
    return {r: cells for r, cells in found.items() if cells and r.header.measure != "statistics"}


def _as_markdown(doc: str) -> str:
    """A docstring's few marks of reStructuredText as Markdown."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", doc)
    text = text.replace("``", "`")
    return re.sub(r"(?<!`)docs/([\w-]+)\.md", r"[\1](../\1.md)", text)


def main() -> None:
    for path, text in written_pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
