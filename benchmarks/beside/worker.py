"""One side of a comparison, in a process of its own: it does rounds when it is asked to.

Orders and answers are lines of JSON on stdin and stdout. This module also runs in the peer's
environment, which has no Atoll, so it needs nothing but Python, numpy and torch.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

import torch

Order = dict[str, Any]
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Finished(Exception):
    """No more rounds of this case are wanted."""


class Gate:
    """What a side passes after each of its rounds; it waits here for the next block of them."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
        self._left = 0
        self._scores: list[list[float]] = []
        self._wall = self._cpu = 0.0

    def open(self, seconds: float) -> None:
        """Everything is built, which took so long: wait for the first block of rounds."""
        self._wait({"built": seconds})

    def passed(self, val: float | None = None, test: float | None = None) -> None:
        """A round is over; its scores are means over clients, if it was scored."""
        if val is not None and test is not None:
            self._scores.append([round(val, 4), round(test, 4)])
        self._left -= 1
        if self._left:
            return
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        spent = {"cpu": round(cpu, 6), "wall": round(wall, 6)}
        self._wait(spent | {"scores": self._scores, "peak_gb": round(peak_memory(), 3)})

    def _wait(self, answer: Order) -> None:
        answer_with(self._answers, answer)
        order = next_order()
        if "rounds" not in order:
            raise Finished
        torch.set_num_threads(order["threads"])
        self._left, self._scores = order["rounds"], []
        self._cpu, self._wall = time.process_time(), time.perf_counter()


Play = Callable[[Path, Order, Gate], None]


def serve(play: Play, versions: Callable[[], dict[str, str]]) -> NoReturn:
    """Play one case after the other, until stdin ends.

    What is printed on the way goes nowhere: a peer may print a line per client and round.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    answer_with(answers, versions())
    while order := next_order():
        forget_peak()
        with suppress(Finished):
            play(Path(order["parts"]), order["case"], Gate(answers))
        # Not while the exception holds what was played: some need half of the memory there is.
        gc.collect()
        answer_with(answers, {})
    sys.exit(0)


def next_order() -> Order:
    line = sys.stdin.readline()
    return json.loads(line) if line else {}


def answer_with(answers: TextIO, answer: Order) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def peak_memory() -> float:
    """The most memory in use since it was last forgotten, in GB; 0 where Linux does not say."""
    if not _STATUS.is_file():
        return 0.0
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def forget_peak() -> None:
    if _RESET.exists():
        _RESET.write_text("5")
