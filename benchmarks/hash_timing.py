"""Whether the time in which an id becomes a point, or is raised, follows the id.

    python benchmarks/hash_timing.py [--ids 400] [--repeats 200] [--seed 0]

Every id is timed again and again, in an order that is drawn anew each time, and the repeats are
dealt to two halves. What is the id's own is in both halves' times of it, noise is not: their
correlation over ids is near zero if time says nothing of the id, and near one if it says which it
is. The control is what hashes to a curve do that are not made for this: count up until there is a
point.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Callable

import numpy as np

from atoll.deploy.ristretto import _library, new_scalar, point_of, raised


def counted_up(text: bytes) -> bytes:
    """A point by trying: one of 16 hashes or so is one."""
    for count in range(1000):
        point = hashlib.sha256(text + bytes([count % 256, count // 256])).digest()
        if _library().crypto_core_ristretto255_is_valid_point(point):
            return point
    raise AssertionError("no point")


def halves(
    does: Callable[[bytes], bytes], texts: list[bytes], repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """The median nanoseconds of each text in each half of the repeats, ``[2, texts]``."""
    took = np.empty((repeats, len(texts)))
    for repeat in range(repeats):
        for i in rng.permutation(len(texts)):
            began = time.perf_counter_ns()
            does(texts[i])
            took[repeat, i] = time.perf_counter_ns() - began
    return np.stack([np.median(took[half::2], axis=0) for half in (0, 1)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ids", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    texts = [f"patient-{n:09d}".encode() for n in rng.choice(10**9, args.ids, replace=False)]
    scalar = new_scalar()
    points = {text: point_of(text) for text in texts}
    cases = {
        "an id becomes a point": point_of,
        "a point is raised": lambda text: raised(points[text], scalar),
        "control: counting up until there is a point": counted_up,
    }
    print(f"within ± {1.96 / args.ids**0.5:.2f}, 95 of 100 times, if nothing follows the id")
    print("| | microseconds | correlation of time with id |")
    print("|---|---|---|")
    for name, does in cases.items():
        first, second = halves(does, texts, args.repeats, rng)
        r = float(np.corrcoef(first, second)[0, 1])
        print(f"| {name} | {statistics.median(first) / 1000:.1f} | {r:.2f} |", flush=True)


if __name__ == "__main__":
    main()
