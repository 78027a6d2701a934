"""The notebooks run from top to bottom, and are kept without outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# A cell's last expression is shown, as a notebook would: its html if it has one, else its repr.
RUNNER = """
import ast, json, sys

def show(value):
    if value is not None:
        made = getattr(value, "_repr_html_", None)
        print(made() if made else repr(value))

space = {"__name__": "__main__"}
for number, cell in enumerate(json.load(sys.stdin)):
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"<cell {number}>", "exec"), space)
    if last is not None:
        show(eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), space))
"""


def cells(path):
    return [
        "".join(cell["source"])
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["compare", "start", "write-a-method"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps(cells(path)),
        capture_output=True, text=True, cwd=tmp_path, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "<table>" in done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept(path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
