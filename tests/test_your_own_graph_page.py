"""The walk-through for one's own graph works as it stands on its page."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "your-own-graph.md").read_text()
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = [
    shlex.split(block.replace("\\\n", " ")) for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)
]


def execute(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env=os.environ | {"COLUMNS": "200", "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_python_examples_run(script, tmp_path):
    done = execute(["-c", script], tmp_path)
    assert done.returncode == 0, done.stderr


def test_five_commands_from_two_csv_files_to_a_trained_federation(tmp_path):
    assert len(COMMANDS) == 5
    (tmp_path / "make_tables.py").write_text(SCRIPTS[0])
    said = []
    for program, *arguments in COMMANDS:
        start = [] if program == "python" else ["-m", "atoll"]
        done = execute([*start, *arguments], tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert all(size in said[1] for size in ("292", "179", "98", "2168", "1316"))
    folders = sorted(path.name for path in (tmp_path / "hospitals").iterdir())
    assert folders == ["patients-harbour", "patients-north", "patients-south"]
    accuracy = dict(re.findall(r"(local|fed-avg|fed-pub|centralized) +\S +(\d+\.\d+)", said[4]))
    assert accuracy["fed-avg"] == re.findall(r"fed-avg +\S +(\d+\.\d+)", said[3])[0]
    # The page gives 90.94, 93.09, 92.52 and 97.04; another machine may round a node away.
    assert all(float(percent) > 88 for percent in accuracy.values())
    assert len(accuracy) == 4
