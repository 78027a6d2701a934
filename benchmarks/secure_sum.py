"""What a secure sum costs: CPU seconds and bytes at 10 and 100 clients, for a model of 10 MB.

    python benchmarks/secure_sum.py [--clients 10,100] [--megabytes 10] [--dropouts] [--some 3]

All parties run one after the other in this process; *per client* is the total divided by their
number, which is what one site needs if all work at once. With ``--some`` only so many clients mask
their numbers, which takes nearly all of the time, and there is no sum to check.
``--dropouts`` has as many clients as the threshold allows fall silent after they sent their shares,
which costs the server most.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from atoll.privacy.secure.masking import PARTS_OF_KEYS
from atoll.privacy.secure.party import Party, threshold_of, unmasked
from atoll.privacy.secure.primitives import seed_of
from atoll.privacy.secure.signing import SIGNATURE, Session, Signer, Simulated, is_signed

SHARE = 0.67


@dataclass
class Cost:
    """CPU seconds of all clients together by turn, and of the server; bytes that a client sends."""

    turns: dict[str, float]
    server: float
    sent: dict[str, int]
    right: bool


def secure_sum(clients: int, numbers: int, dropouts: bool, some: int) -> Cost:
    turns: dict[str, float] = {}
    sent: dict[str, int] = {}
    clock = time.process_time()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.process_time()
        turns[name], clock = now - clock, now

    signers, session = Simulated(), Session("benchmark", 0, 1, 0)
    parties = [Party(SHARE, Signer(c, session, signers.key(c), signers)) for c in range(clients)]
    keys = {c: party.keys() for c, party in enumerate(parties)}
    lap("keys")
    boxes = {c: party.shares(keys) for c, party in enumerate(parties) if _alone()}
    lap("shares")
    threshold = threshold_of(SHARE, clients)
    answered = range(threshold if dropouts else clients)
    values = np.arange(numbers, dtype=np.uint64)
    total = np.zeros(numbers, dtype=np.uint64)
    for c in answered[: some or clients]:
        total += parties[c].masked(values, {o: boxes[o][c] for o in range(clients) if o != c})
    lap("masked numbers")
    if some:
        turns["masked numbers"] *= clients / some
        return Cost(turns, 0.0, {"masked numbers": total.nbytes, **_sizes(boxes)}, True)
    signed = {c: parties[c].agreed(answered) for c in answered}
    lap("who answered")
    found = {c: parties[c].revealed(answered, signed) for c in answered if _alone()}
    lap("seeds' shares")
    seeds = {
        other: seed_of({c: shares[other] for c, shares in found.items()}, threshold)
        for other in range(clients)
    }
    bare = unmasked(total, keys, range(clients), answered, seeds)
    server = time.process_time() - clock
    sent |= {"masked numbers": total.nbytes, **_sizes(boxes)}
    sent["who answered"] = SIGNATURE
    sent["seeds' shares"] = sum(len(share) for share in found[0].values())
    return Cost(turns, server, sent, np.array_equal(bare, values * np.uint64(len(answered))))


def _alone() -> bool:
    """As at a site, where no other party has checked a signature already."""
    is_signed.cache_clear()
    return True


def _sizes(boxes: dict[int, dict[int, bytes]]) -> dict[str, int]:
    return {
        "keys": sum(PARTS_OF_KEYS.values()),
        "shares": sum(len(box) for box in boxes[0].values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="10,100")
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--dropouts", action="store_true")
    parser.add_argument("--some", type=int, default=0)
    options = parser.parse_args()
    numbers = int(options.megabytes * 1e6 / 4)
    print(f"{numbers} numbers: {options.megabytes:g} MB in single precision")
    print("| clients | turn | CPU seconds per client | bytes per client |")
    print("|---|---|---|---|")
    for clients in map(int, options.clients.split(",")):
        cost = secure_sum(clients, numbers, options.dropouts, options.some)
        for turn, seconds in cost.turns.items():
            print(f"| {clients} | {turn} | {seconds / clients:.3f} | {cost.sent[turn]:,} |")
        if not options.some:
            print(f"| {clients} | the server's part | {cost.server:.3f} in all | |")
        if not cost.right:
            raise SystemExit("the sum is wrong")


if __name__ == "__main__":
    main()
