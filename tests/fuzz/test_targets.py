"""Every fuzz target, for a few hundred mutants; ``python fuzz/NAME.py`` has them by the million."""

import importlib
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from harness import Failure, Target, mutated, quickly

FUZZ = Path(__file__).parents[2] / "fuzz"
TARGETS = sorted({p.stem for p in FUZZ.glob("*.py")} - {"harness", "replies", "envelopes"})


def test_there_is_a_target_for_everything_that_comes_from_outside():
    wanted = {"frames", "archives", "parquet", "parties", "configs", "addresses", "policies"}
    assert set(TARGETS) >= wanted


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_are_read_or_refused(name, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    target = importlib.import_module(name).make(tmp_path)
    tally = quickly(target, 300)
    assert tally.failures == {}
    assert tally.read + tally.refused == 300


@pytest.mark.parametrize("name", ["parquet", "parties"])
def test_what_mutants_are_made_of_is_good(name, tmp_path):
    target = importlib.import_module(name).make(tmp_path)
    assert all(target.attempt(seed) for seed in target.seeds)


def test_a_mutant_is_always_the_same_and_another_one_differs():
    seeds = [bytes(range(200)), b"another" * 9]
    assert mutated(seeds, 1, 7) == mutated(seeds, 1, 7)
    assert len({mutated(seeds, 1, i) for i in range(100)}) > 90


def test_what_a_mutant_must_not_do_is_counted():
    def attempt(content):
        if content[:1] == b"\0":
            raise Failure("it must not begin so")
        return True

    tally = quickly(Target([b"\0abc"], attempt), 50)
    assert sum(tally.failures.values()) + tally.read == 50
    assert tally.failures["Failure: it must not begin so"] > 10


_DYING = """
import os, time
from pathlib import Path
from harness import Target, main

def make(folder):
    def attempt(content):
        if content[0] == 7:
            os.abort()
        if content[0] == 9:
            time.sleep(600)
        return True
    return Target([bytes([7]) * 4, bytes([9]) * 4, b"good"], attempt, seconds=0.3)

if __name__ == "__main__":
    main(make, __file__, "x")
"""


def test_a_process_that_dies_or_hangs_is_seen_and_the_rest_goes_on(tmp_path):
    script = tmp_path / "dying.py"
    script.write_text(_DYING)
    done = subprocess.run(
        [sys.executable, str(script), "--count", "12"],
        env={"PYTHONPATH": str(FUZZ), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "12 mutants" in done.stdout
    assert "the process ends with -6" in done.stdout
    assert "it hangs" in done.stdout
