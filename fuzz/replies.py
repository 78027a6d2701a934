"""What a hostile site can reply: nothing it sends may stop a run or leave its mark on the model.

    python fuzz/replies.py [--count 10000] [--seed 0] [--methods fed-avg fed-pub ...]

Every method runs one round in which one client's replies are mutated. A mutated reply must be left
out, and the server's next state must then be, bit by bit, the one without that client's replies.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / part) for part in ("", "laws")]

from support import make, network, small_parties  # noqa: E402

from atoll.cohort import Cohort  # noqa: E402
from atoll.deploy.fleet import Fleet  # noqa: E402
from atoll.deploy.remote import Remote  # noqa: E402
from atoll.federation.codec import (  # noqa: E402
    decode_answer,
    decode_request,
    step_answer,
    step_call,
)
from atoll.federation.host import Host  # noqa: E402
from atoll.methods.base import Info, methods  # noqa: E402
from atoll.partition.anchors import matched  # noqa: E402
from atoll.tree import Tree, flat, flatten  # noqa: E402

SITES = ("one", "two", "three", "four")
HOSTILE = "two"
Mutation = Callable[[bytes, np.random.Generator], bytes | None]


def packed(tensors: dict[str, Tensor], facts: dict[str, object], order: object = None) -> bytes:
    """An archive as anybody can make one, with a header of any content."""
    from safetensors.torch import save

    header = {"facts": facts, "order": list(tensors) if order is None else order}
    return save(tensors, metadata={"atoll": json.dumps(header)})


def opened(reply: bytes) -> tuple[dict[str, Tensor], dict[str, object]]:
    answer = decode_answer(reply)
    return flatten(answer.tree), {"id": answer.id, "error": answer.error, "more": {}}


def _one(tensors: dict[str, Tensor], rng: np.random.Generator) -> str | None:
    """A leaf with numbers in it, by chance."""
    names = [n for n, t in tensors.items() if t.is_floating_point() and t.numel()]
    return str(rng.choice(names)) if names else None


def changed(change: Callable[[Tensor], Tensor]) -> Mutation:
    """Of one leaf of a reply, if it has one with numbers."""

    def mutate(reply: bytes, rng: np.random.Generator) -> bytes | None:
        tensors, facts = opened(reply)
        name = _one(tensors, rng)
        if name is None:
            return None
        return packed(tensors | {name: change(tensors[name].clone())}, facts)

    return mutate


def spoiled(value: float) -> Mutation:
    """One number of a reply replaced."""

    def change(t: Tensor) -> Tensor:
        t.view(-1)[t.numel() // 2] = value
        return t

    return changed(change)


def with_weight(weight: Tensor | None) -> Mutation:
    def mutate(reply: bytes, rng: np.random.Generator) -> bytes | None:
        tensors, facts = opened(reply)
        if weight is None and "weight" not in tensors:
            return None
        del rng
        others = {name: t for name, t in tensors.items() if name != "weight"}
        return packed(others | ({} if weight is None else {"weight": weight}), facts)

    return mutate


def header(text: str) -> Mutation:
    """An archive without tensors and with any header."""

    def mutate(reply: bytes, rng: np.random.Generator) -> bytes:
        del reply, rng
        content = json.dumps({"__metadata__": {"atoll": text}}).encode()
        return len(content).to_bytes(8, "little") + content

    return mutate


def sizes(new: Tensor) -> Mutation:
    """Ragged leaves with other sizes; a new one where there is none."""

    def mutate(reply: bytes, rng: np.random.Generator) -> bytes:
        del rng
        tensors, facts = opened(reply)
        ragged = {n: new.clone() for n in tensors if n.endswith(("#sizes", "#counts"))}
        if not ragged:
            ragged = {"body/made-up/x#values": torch.zeros(3), "body/made-up/x#sizes": new}
        return packed(tensors | ragged, facts)

    return mutate


def renamed(reply: bytes, rng: np.random.Generator) -> bytes | None:
    tensors, facts = opened(reply)
    if not tensors:
        return None
    name = str(rng.choice(list(tensors)))
    return packed({n + "x" * (n == name): t for n, t in tensors.items()}, facts)


def further(reply: bytes, rng: np.random.Generator) -> bytes:
    del rng
    tensors, facts = opened(reply)
    return packed(tensors | {"body/more/than-due": torch.zeros(1, 3)}, facts)


def cut(reply: bytes, rng: np.random.Generator) -> bytes:
    return reply[: int(rng.integers(0, len(reply)))]


def header_bits(reply: bytes, rng: np.random.Generator) -> bytes:
    """Bits of the header's structure turned over, in what says where tensors lie."""
    size = int.from_bytes(reply[:8], "little")
    content = bytearray(reply)
    places = rng.integers(0, 8 + min(size, 64), 1 + int(rng.integers(4)))
    for place in places:
        content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


MUTATIONS: dict[str, Mutation] = {
    "NaN": spoiled(float("nan")),
    "infinity": spoiled(float("inf")),
    "3e38": spoiled(3e38),
    "-1e16": spoiled(-1e16),
    "half precision": changed(lambda t: t.half()),
    "complex": changed(lambda t: t.to(torch.complex64)),
    "float8": changed(lambda t: t.to(torch.float8_e4m3fn)),
    "other precision": changed(lambda t: t.double() if t.dtype == torch.float32 else t.float()),
    "two clients": changed(lambda t: torch.cat([t, t])),
    "no dimension": changed(lambda t: t.sum()),
    "one more axis": changed(lambda t: t[..., None]),
    "nothing": changed(lambda t: t[:0]),
    "weight 1e39": with_weight(torch.tensor([1e39], dtype=torch.float64)),
    "weight 1e12": with_weight(torch.tensor([1e12], dtype=torch.float64)),
    "weight -1": with_weight(torch.tensor([-1.0], dtype=torch.float64)),
    "weight NaN": with_weight(torch.tensor([float("nan")], dtype=torch.float64)),
    "complex weight": with_weight(torch.tensor([1j])),
    "float8 weight": with_weight(torch.ones(1).to(torch.float8_e4m3fn)),
    "single weight": with_weight(torch.ones(1)),
    "whole weight": with_weight(torch.ones(1, dtype=torch.int64)),
    "two weights": with_weight(torch.ones(2, dtype=torch.float64)),
    "no weight": with_weight(None),
    "nested header": header("[" * 100_000 + "]" * 100_000),
    "nested facts": header('{"facts": ' + "[" * 50_000 + "]" * 50_000 + ', "order": []}'),
    "no header": header("null"),
    "a number for a header": header("1" * 4000),
    "facts without id": header('{"facts": {}, "order": []}'),
    "infinite sizes": sizes(torch.tensor([float("inf")])),
    "negative sizes": sizes(torch.tensor([-1])),
    "huge sizes": sizes(torch.tensor([2**62])),
    "many sizes": sizes(torch.zeros(100_000, dtype=torch.int64)),
    "sizes of two axes": sizes(torch.ones(1, 1, dtype=torch.int64)),
    "a leaf renamed": renamed,
    "a leaf too many": further,
    "cut": cut,
    "bits of the header": header_bits,
    "empty": lambda reply, rng: b"",
    "noise": lambda reply, rng: rng.bytes(int(rng.integers(1, 4000))),
}


class Hosts(Fleet):
    """Sites in this process, of which one mutates its replies; without a mutation it is silent."""

    def __init__(self, hosts: dict[str, Host], mutate: Mutation | None, seed: int) -> None:
        self.hosts = hosts
        self.mutate = mutate
        self.draws = np.random.default_rng(seed)
        self.mutated = 0

    def present(self, sites: Collection[str]) -> set[str]:
        return set(sites)

    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        replies = {site: self._answered(site, message) for site, message in messages.items()}
        if HOSTILE in replies:
            honest = replies.pop(HOSTILE)
            false = self.mutate(honest, self.draws) if self.mutate else None
            if false is not None and false != honest:
                self.mutated += 1
                replies[HOSTILE] = false
        return replies

    def _answered(self, site: str, message: bytes) -> bytes:
        request = decode_request(message)
        call, row = step_call(request)
        host = self.hosts[site]
        [batch] = host.perform(call, host.cohort.clients, row)
        return step_answer(request, batch).encode()


def rounds(name: str, mutate: Mutation | None, seed: int) -> tuple[Tree, Hosts, Remote]:
    """The server's state after two rounds with a hostile site."""
    method = make(name).hurried()
    parties, anchors = small_parties(name)[: len(SITES)], ()
    if method.needs_anchors:
        parties, anchors = matched(parties)
    whole = Cohort(parties, dtype=torch.float64)
    hosts = {site: Host(method, whole.take([p]), 0) for p, site in enumerate(SITES)}
    fleet = Hosts(hosts, mutate, seed)
    fed = Remote(fleet, SITES, 0, "fuzz", deadline=1.0, quorum=1)
    fed.heaviest = {
        k: method.heaviest(size, int(labelled))
        for k, (size, labelled) in enumerate(zip(whole.sizes, whole.labelled, strict=True))
    }
    links = network(list(range(len(SITES)))) if method.needs_network else None
    info = Info(len(SITES), whole.features, whole.classes, whole.dtype, anchors, links)
    state = method.start(info, 0)
    for r in (1, 2):
        fed.begin(r)
        fed.gather(0.0)
        state = method.round(fed, state, r)
        method.measure(fed, state)
    return flat(state), fleet, fed


def attack(name: str, mutation: str, seed: int, honest: Tree) -> tuple[int, str]:
    """How many replies were mutated, and what went wrong, if anything."""
    try:
        state, fleet, _ = rounds(name, MUTATIONS[mutation], seed)
    except Exception as problem:
        return 1, f"stopped the run: {type(problem).__name__}: {problem}"
    for leaf, value in flatten(state).items():
        if not torch.equal(value, flatten(honest)[leaf]):
            return fleet.mutated, f"left its mark on '{leaf}'"
    return fleet.mutated, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="mutated replies in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=attackable())
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    honest = {name: rounds(name, None, 0)[0] for name in args.methods}
    tried, failed, seed = 0, Counter[str](), args.seed
    while tried < args.count:
        for name in args.methods:
            for mutation in MUTATIONS:
                mutated, wrong = attack(name, mutation, seed, honest[name])
                tried += mutated
                if wrong:
                    failed[f"{name}, {mutation}: {wrong}"] += 1
        seed += 1
        print(f"{tried} mutated replies, {sum(failed.values())} runs harmed", flush=True)
    for what, times in failed.most_common():
        print(f"{times:5d}  {what}")
    sys.exit(1 if failed else 0)


def attackable() -> list[str]:
    """Methods in which clients answer a server."""
    return [name for name in sorted(methods) if not make(name).pooled]


if __name__ == "__main__":
    main()
