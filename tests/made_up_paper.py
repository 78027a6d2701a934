"""A made-up paper with one table, for tests of reproductions."""

from pathlib import Path

from typer.testing import CliRunner

from atoll.cli import app
from atoll.reproduction.recipe import load_recipe
from atoll.reproduction.results import load_cells

NAME = "nobody/table-1"
RECIPE = """
title = "A made-up table"
source = "Nobody, 2026."
seeds = 2
tolerance = {tolerance}
above = "{above}"

[settings]
data = {{ name = "patients" }}
partition = {{ name = "random", clients = 3 }}
model = {{ hidden = 8 }}
run = {{ rounds = 3 }}

[methods.local]
[methods.fed-avg]
method = {{ fraction = 0.5 }}

[rows.small]
paper = {{ local = [{paper}, 0.5], fed-avg = [{paper}, 0.1] }}

[rows.other]
settings = {{ partition = {{ clients = 2 }} }}
paper = {{ local = [{paper}, 0.5] }}
tolerance = {{ local = 100.0 }}
"""

FIGURE = """
title = "A made-up figure"
source = "Nobody, 2026."
seeds = 2
columns = ["alone", "early", "traffic"]

[settings]
data = {{ name = "patients" }}
partition = {{ name = "random", clients = 3 }}
model = {{ hidden = 8 }}
run = {{ rounds = 3 }}

[plot]
kind = "{kind}"
x = "clients"
y = "accuracy"

[methods.alone]
method = {{ name = "local" }}
[methods.early]
figure = "test_accuracy@1"
method = {{ name = "fed-avg" }}
[methods.traffic]
figure = "bytes_up"
method = {{ name = "fed-avg" }}

[rows.three]
x = 3
paper = {{ alone = 50.0 }}

[rows.two]
x = 2
settings = {{ partition = {{ clients = 2 }} }}
"""


class MadeUpPaper:
    """The recipe of its only table, in a folder of recipes of its own."""

    def __init__(self, recipes: Path):
        self.path = recipes / f"{NAME}.toml"
        self.path.parent.mkdir(parents=True)

    def write(self, tolerance=100.0, above="outside", paper=50.0):
        self.path.write_text(RECIPE.format(tolerance=tolerance, above=above, paper=paper))

    def write_figure(self, kind):
        self.path.write_text(FIGURE.format(kind=kind))


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", NAME, *arguments])


def kept_cells(out="results"):
    """What is kept, in the recipe's order."""
    return list(load_cells(Path(out), load_recipe(NAME)).values())
