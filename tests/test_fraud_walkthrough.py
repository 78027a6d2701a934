"""The fraud walk-through works as it stands, and its output is what the commands print.

To write the output anew: ATOLL_WRITE_PAGE=1 python -m pytest tests/test_fraud_walkthrough.py
"""

import os
import re
import shlex
import shutil
from pathlib import Path

import polars
import pytest
from sklearn.metrics import average_precision_score

from test_your_own_graph_page import execute

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "fraud-walkthrough.md"
BLOCK = re.compile(r"```(sh|python|text)\n(.*?)```", re.S)
NUMBER = re.compile(r"[+-]?\d+\.\d+")


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Where the page's commands were run; what each block printed, and what the page shows."""
    home = tmp_path_factory.mktemp("walk")
    shutil.copyfile(HERE / "fraud_table.py", home / "fraud_table.py")
    text, printed, pairs = PAGE.read_text(), "", []
    for kind, content in BLOCK.findall(text):
        if kind == "text":
            pairs.append((printed, content))
            continue
        commands = [["python", "-c", content]] if kind == "python" else lines(content)
        printed = "".join(done(command, home) for command in commands)
    if os.environ.get("ATOLL_WRITE_PAGE"):
        new = iter(p for p, _ in pairs)
        PAGE.write_text(
            BLOCK.sub(
                lambda m: f"```text\n{next(new)}```" if m[1] == "text" else m[0],
                text,
            )
        )
    return home, pairs


def lines(content):
    return [shlex.split(line) for line in content.replace("\\\n", " ").strip().splitlines()]


def done(command, home):
    """What a command prints, without the figures of a run, which has its time in them."""
    program, *arguments = command
    start = [] if program == "python" else ["-m", "atoll"]
    finished = execute([*start, *arguments], home)
    assert finished.returncode == 0, finished.stderr
    if arguments[0] == "run":
        return ""
    return "".join(f"{line.rstrip()}\n" for line in finished.stdout.splitlines())


@pytest.mark.parametrize("block", range(6))
def test_the_page_shows_what_is_printed(block, walked):
    """Words and whole numbers as they are, fractions to a point of a percent."""
    printed, shown = walked[1][block]
    assert NUMBER.sub("", printed).split() == NUMBER.sub("", shown).split()
    ours, theirs = (list(map(float, NUMBER.findall(text))) for text in (printed, shown))
    assert ours == pytest.approx(theirs, abs=1.0)


def test_joined_and_alone_are_far_above_chance_and_near_a_regression(walked):
    """Chance is the share of fraud, 2.4 percent; the regression has the same columns and splits."""
    methods = polars.read_csv(walked[0] / "compared" / "methods.csv")
    found = dict(zip(methods["method"], 100 * methods["mean"], strict=True))
    alone, together = (float(n) for n in re.findall(r": (\d+\.\d)", walked[1][2][0]))
    assert found["local"] > max(10, alone - 5)
    assert found["fed-avg"] > max(10, together - 5)


def test_new_accounts_are_ranked_far_above_chance(walked):
    scores = polars.read_csv(walked[0] / "scores.csv")
    truth = polars.read_csv(walked[0] / "truth.csv").rename({"account": "id"})
    seen = scores.join(truth, on="id")
    assert scores.height == seen.height == 200
    fraud = (seen["fraud"] == "yes").to_numpy()
    assert average_precision_score(fraud, seen["p_yes"].to_numpy()) > 5 * fraud.mean()
