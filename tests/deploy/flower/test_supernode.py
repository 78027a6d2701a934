"""A SuperNode that Flower refuses for a while, because the one before it was killed."""

import os
import sys

import pytest

from atoll.deploy.flower import supernode
from atoll.deploy.flower.supernode import keep_trying


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(supernode, "_BETWEEN_TRIES", 0.05)
    # Signals belong to the test runner.
    monkeypatch.setattr(supernode.signal, "signal", lambda *_: None)


def refused(tmp_path, refusals, code):
    """A command that is refused so many times and then ends with a code of its own."""
    script = f"""
import pathlib, sys
lives = pathlib.Path({str(tmp_path / "lives")!r})
lives.write_text((lives.read_text() if lives.exists() else "") + "x")
if len(lives.read_text()) <= {refusals}:
    sys.exit("[code: 2004] Failed to activate SuperNode.")
sys.exit({code})
"""
    return [sys.executable, "-c", script]


def lives(tmp_path):
    return len((tmp_path / "lives").read_text())


def test_it_comes_back_until_its_last_life_is_forgotten(tmp_path):
    assert keep_trying(refused(tmp_path, refusals=2, code=0), dict(os.environ)) == 0
    assert lives(tmp_path) == 3


def test_another_end_is_its_end(tmp_path):
    assert keep_trying(refused(tmp_path, refusals=0, code=7), dict(os.environ)) == 7
    assert lives(tmp_path) == 1


def test_it_does_not_try_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(supernode, "_SECONDS_TO_TRY", 0.3)
    assert keep_trying(refused(tmp_path, refusals=10**6, code=0), dict(os.environ)) == 1
    assert lives(tmp_path) > 1
