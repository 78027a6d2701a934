"""Golden losses: a refactoring that changes a number is not a refactoring.

To accept a deliberate change: ATOLL_WRITE_GOLDEN=1 python -m pytest tests/laws/test_golden.py
"""

import json
import os
from pathlib import Path

import pytest
from support import NAMES, make, small_parties, train

GOLDEN = Path(__file__).with_name("golden.json")


def losses(name: str) -> list[list[float]]:
    """Each round's mean training loss of every client, five rounds."""
    scores = train(make(name), small_parties(name), rounds=5).scores
    return [replies["metric"]["loss"][:, 0].tolist() for replies in scores[1:]]


@pytest.mark.parametrize("name", NAMES)
def test_five_rounds_give_the_golden_losses(name):
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    found = losses(name)
    if os.environ.get("ATOLL_WRITE_GOLDEN"):
        golden[name] = found
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    assert name in golden, f"no golden losses for {name}; see this file's docstring"
    for mine, theirs in zip(found, golden[name], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-7)
