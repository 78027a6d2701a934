"""Writing the pages and plots of kept results."""

from __future__ import annotations

from pathlib import Path

from atoll.files import write_text
from atoll.report.leaderboard import leaderboard
from atoll.report.plots import draw_recipe
from atoll.report.reproduction import markdown, overview_page
from atoll.reproduction.cells import Cell
from atoll.reproduction.recipe import Recipe, load_recipe, recipe_names
from atoll.reproduction.results import load_cells


def write_page(out: Path, recipe: Recipe, page: Path | None = None) -> list[Cell]:
    """The page about the kept cells of a recipe, and its plot; nothing if there are none.

    ``page`` is a second place for it.
    """
    cells = list(load_cells(out, recipe).values())
    if not cells:
        return cells
    if recipe.plot is not None:
        draw_recipe(recipe, cells, out / f"{recipe.name}.svg")
    text = markdown(recipe, cells) if recipe.budget is None else leaderboard(recipe, cells)
    for path in (out / f"{recipe.name}.md", *([] if page is None else [page])):
        write_text(path, text)
    return cells


def write_pages(out: Path) -> dict[Recipe, list[Cell]]:
    """All pages and their index, written anew; returns every recipe with what is kept of it."""
    recipes = [load_recipe(name) for name in recipe_names()]
    kept = {recipe: write_page(out, recipe) for recipe in recipes}
    if any(kept.values()):
        write_text(out / "README.md", overview_page(kept))
    return kept
