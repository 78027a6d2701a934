"""What anybody can send a site: nothing but the coordinator's own words may get past its door.

    python fuzz/envelopes.py [--count 1000000] [--seed 0]

Requests that the coordinator has signed are mutated, and peers' letters of the matching too. A
mutated message must be refused without an answer, without an exception, and before its content is
read.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

import numpy as np

from atoll.deploy.door import REFUSED, Door
from atoll.deploy.envelope import Forged, Label
from atoll.deploy.identity import Identity, identity_of
from atoll.deploy.keyring import enrol
from atoll.deploy.letters import Letters
from atoll.deploy.voice import Voice, voice_of
from atoll.federation.codec import Request
from atoll.files import write_json


class Read(Exception):
    """A site has read what it should not have."""


def sides(folder: Path) -> tuple[Voice, dict[str, Identity]]:
    """A coordinator and two sites."""
    for site in "ab":
        write_json(folder / f"site-{site}" / "atoll.json", {"name": site})
    enrol(folder, ["a", "b"])
    identities = {s: identity_of(folder / f"site-{s}", folder / f"state-{s}") for s in "ab"}
    return voice_of(folder / "server"), identities


def mutated(message: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Bits turned over, a part cut out, left out or put in, or two messages crossed."""
    kind, place = int(rng.integers(6)), int(rng.integers(len(message)))
    if kind == 0:
        turned = bytearray(message)
        for at in rng.integers(0, len(message), 1 + int(rng.integers(4))):
            turned[at] ^= 1 << int(rng.integers(8))
        return bytes(turned)
    if kind == 1:
        return message[:place]
    if kind == 2:
        return message[:place] + message[place + 1 + int(rng.integers(64)) :]
    if kind == 3:
        return message[:place] + rng.bytes(1 + int(rng.integers(64))) + message[place:]
    if kind == 4:
        return message[:place] + other[place:]
    return rng.bytes(int(rng.integers(400)))


def attack(folder: Path, count: int, seed: int) -> tuple[int, list[str]]:
    """How many mutated messages were sent, and what went wrong with any of them."""
    voice, identities = sides(folder)

    def read(content: bytes, label: Label) -> bytes:
        raise Read(label, len(content))

    door = Door(identities["a"], folder / "state-a", read)
    rng, wrong = np.random.default_rng(seed), []
    requests = [Request("ping"), Request("hello", "run", 1), Request("match", "run", 2)]
    signed = [voice.asks("a", request) for request in requests]
    letters = {s: Letters(identities[s], "run", 1) for s in "ab"}
    letter = letters["b"].write("lists", "a", bytes(range(96)))
    spare = letters["b"].write("raise", "a", bytes(range(96)))
    tried = 0
    while tried < count:
        message, other = (signed[i] for i in rng.permutation(len(signed))[:2])
        false = mutated(message, other, rng)
        if false in signed:
            continue
        tried += 1
        try:
            if door.handle(false) != REFUSED:
                wrong.append(f"answered: {false.hex()}")
        except Exception as problem:
            wrong.append(f"{type(problem).__name__}: {false.hex()}")
        forged = mutated(letter, spare, rng)
        try:
            letters["a"].read("lists", "b", forged)
            wrong += [] if forged == letter else [f"believed: {forged.hex()}"]
        except Forged:
            pass
        except Exception as problem:
            wrong.append(f"{type(problem).__name__} at the letter {forged.hex()}")
    return tried, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tried, wrong = attack(Path(folder), args.count, args.seed)
    print(f"{tried} mutated requests and as many letters, {len(wrong)} not refused")
    for what in wrong[:20]:
        print(what)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
