"""What all fuzz targets share: mutations of good files, and a worker that may die or hang.

A target is a script of its own: ``python fuzz/NAME.py [--count 100000] [--seed 0]``. It tells what
good content looks like and what reading it does; each mutant must be read or refused in words.
Anything else is a failure: another exception, a signal, or more than some seconds. Mutant ``i`` of
a seed is always the same, so ``--only i`` repeats it.
"""

from __future__ import annotations

import argparse
import logging
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**63 - 1, 2**63)
_BOARD = struct.Struct("<4q")  # the mutant at work on, how many were read, refused, failed
_SECONDS_TO_COME_UP = 120.0
# Files that live for a millisecond need no disk.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Failure(Exception):
    """A mutant did what it must not, though nothing was raised."""


@dataclass(frozen=True)
class Target:
    """Good contents, and what is done with a mutant: True if it was read, False if refused."""

    seeds: Sequence[bytes]
    attempt: Callable[[bytes], bool]
    seconds: float = 30.0


@dataclass
class Tally:
    """What became of the mutants."""

    read: int = 0
    refused: int = 0
    failures: Counter[str] | None = None

    def __post_init__(self) -> None:
        self.failures = self.failures or Counter()

    def failed(self, index: int, what: str) -> None:
        assert self.failures is not None
        if not self.failures[what]:
            print(f"mutant {index}: {what}", file=sys.stderr, flush=True)
        self.failures[what] += 1


def mutated(seeds: Sequence[bytes], seed: int, index: int) -> bytes:
    """One of the seeds after one to eight changes."""
    rng = np.random.default_rng([seed, index])
    content = bytearray(seeds[int(rng.integers(len(seeds)))])
    for _ in range(2 ** int(rng.integers(4))):
        _CHANGES[int(rng.integers(len(_CHANGES)))](content, rng, seeds)
    return bytes(content)


def _bit(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    del seeds
    if content:
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))


def _byte(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    del seeds
    if content:
        content[int(rng.integers(len(content)))] = int(rng.integers(256))


def _number(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    """A whole number of some width that borders on something."""
    del seeds
    width = 2 ** int(rng.integers(4))
    if len(content) >= width:
        at = int(rng.integers(len(content) - width + 1))
        value = _INTERESTING[int(rng.integers(len(_INTERESTING)))] % 256**width
        order = "little" if rng.integers(2) else "big"
        content[at : at + width] = value.to_bytes(width, order)  # type: ignore[arg-type]


def _cut(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    del seeds
    a, b = sorted(int(n) for n in rng.integers(0, len(content) + 1, 2))
    del content[a : min(b, a + int(rng.integers(1, 65)))]


def _end(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    del seeds
    del content[int(rng.integers(len(content) + 1)) :]


def _again(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    """A piece of it, repeated elsewhere."""
    del seeds
    if content:
        a = int(rng.integers(len(content)))
        piece = content[a : a + int(rng.integers(1, 65))]
        at = int(rng.integers(len(content) + 1))
        content[at:at] = piece * int(2 ** rng.integers(4))


def _foreign(content: bytearray, rng: np.random.Generator, seeds: Sequence[bytes]) -> None:
    """A piece of another seed, written over what was there."""
    other = seeds[int(rng.integers(len(seeds)))]
    if content and other:
        a, at = int(rng.integers(len(other))), int(rng.integers(len(content)))
        piece = other[a : a + int(rng.integers(1, 65))]
        content[at : at + len(piece)] = piece


_CHANGES = (_bit, _bit, _byte, _number, _cut, _end, _again, _foreign)


def tried(target: Target, seed: int, indices: range, note: Callable[[Tally, int], None]) -> Tally:
    """Attempt some mutants in this process; ``note`` hears of each beforehand."""
    tally = Tally()
    for index in indices:
        note(tally, index)
        content = mutated(target.seeds, seed, index)
        try:
            if target.attempt(content):
                tally.read += 1
            else:
                tally.refused += 1
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # a panic of native code is no Exception
            first = str(problem).split("\n")[0][:120]
            tally.failed(index, f"{type(problem).__name__}: {first}")
    return tally


def quickly(target: Target, count: int, seed: int = 0) -> Tally:
    """Some mutants in this process, without a guard; for tests."""
    return tried(target, seed, range(count), lambda tally, index: None)


def main(make: Callable[[Path], Target], script: str, about: str) -> None:
    """The command line of a target."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one mutant, by its number, with a traceback")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            target = make(Path(folder))
            content = mutated(target.seeds, given.seed, given.only)
            print(f"{len(content)} bytes:", "read" if target.attempt(content) else "refused")
        return
    if given.worker:
        _work(make, given.seed, *given.worker)
        return
    tally = _supervised(make, script, given.count, given.seed)
    assert tally.failures is not None
    print(f"{given.count} mutants: {tally.read} read, {tally.refused} refused, "
          f"{sum(tally.failures.values())} failed")  # fmt: skip
    for what, times in tally.failures.most_common():
        print(f"{times:6d}  {what}")
    sys.exit(1 if tally.failures else 0)


def _work(make: Callable[[Path], Target], seed: int, board: str, first: str, last: str) -> None:
    logging.disable(logging.CRITICAL)
    with open(board, "r+b") as file, tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        shown = mmap.mmap(file.fileno(), _BOARD.size)

        def note(tally: Tally, index: int) -> None:
            assert tally.failures is not None
            failed = sum(tally.failures.values())
            shown[:] = _BOARD.pack(index, tally.read, tally.refused, failed)

        tally = tried(make(Path(folder)), seed, range(int(first), int(last)), note)
        note(tally, int(last))
        assert tally.failures is not None
        for what, times in tally.failures.items():
            print(f"{times}\t{what}")


class _Spent:
    """What a process has used since: on a busy machine a worker that gets no turn is not hung."""

    def __init__(self, pid: int) -> None:
        self.pid, self.since, self.used = pid, time.monotonic(), _processor_seconds(pid)

    def more_than(self, seconds: float) -> bool:
        """So much of a processor, or of the clock tenfold, where it only waits."""
        late = time.monotonic() - self.since > 10 * seconds
        return late or _processor_seconds(self.pid) - self.used > seconds


def _processor_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:  # it has ended
        return 0.0
    return float(times.user + times.system)


def _supervised(make: Callable[[Path], Target], script: str, count: int, seed: int) -> Tally:
    """All mutants, in a process that is started again whenever one of them ends it."""
    with tempfile.TemporaryDirectory() as folder:
        target = make(Path(folder))
    total, at, said = Tally(), 0, time.monotonic()
    while at < count:
        with tempfile.NamedTemporaryFile() as board, tempfile.TemporaryFile("w+") as out:
            board.write(_BOARD.pack(-1, 0, 0, 0))
            board.flush()
            worker = subprocess.Popen(
                [sys.executable, script, "--seed", str(seed), "--worker", board.name, str(at),
                 str(count)],
                stdout=out, stderr=subprocess.DEVNULL,
                # Handing tables of a few rows to other threads takes longer than the work on them.
                env=os.environ | {"POLARS_MAX_THREADS": "1"},
            )  # fmt: skip
            last, since, hung = -1, _Spent(worker.pid), False
            while worker.poll() is None:
                time.sleep(0.2)
                index, *_ = _BOARD.unpack(Path(board.name).read_bytes())
                if index != last:
                    last, since = index, _Spent(worker.pid)
                elif since.more_than(target.seconds if index >= 0 else _SECONDS_TO_COME_UP):
                    worker.send_signal(signal.SIGKILL)
                    hung = True
                if time.monotonic() - said > 60:
                    print(f"... {max(index, 0)} of {count}", file=sys.stderr, flush=True)
                    said = time.monotonic()
            index, read, refused, failed = _BOARD.unpack(Path(board.name).read_bytes())
            total.read += read
            total.refused += refused
            assert total.failures is not None
            if worker.returncode == 0:
                out.seek(0)
                for line in out:
                    times, _, what = line.rstrip("\n").partition("\t")
                    total.failures[what] += int(times)
                return total
            if index < 0:
                raise SystemExit(f"the worker could not begin (exit code {worker.returncode})")
            if failed:
                total.failures["exceptions before the worker died (see --only)"] += failed
            why = "it hangs" if hung else f"the process ends with {worker.returncode}"
            total.failed(index, why)
            at = index + 1
    return total
