"""The laws that every method keeps, and what most often breaks each of them."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from atoll.device import of_numpy
from atoll.federation.host import PrivacyViolation
from atoll.graph import Graph, dense
from atoll.laws.differences import first_difference, values
from atoll.laws.federation import Heard, Outcome, Spoiled, train
from atoll.laws.parties import community_parties
from atoll.methods.base import Method
from atoll.tree import kind, take

TOLERANCE = 1e-9
# Where only the layout of memory differs.
SAME = 1e-12


@dataclass
class Subject:
    """A method on trial. ``fresh`` makes it anew, as another process would."""

    method: Method
    fresh: Callable[[], Method]
    # Whether parties hold some nodes in common; None: if the method builds on it.
    shared: bool | None = None
    # Every leaf of every reply of its three usual rounds.
    heard: Heard = field(default_factory=list)

    def parties(self, sizes: tuple[int, ...] | None = None, dense: bool = False) -> list[Graph]:
        shared = self.method.needs_anchors if self.shared is None else self.shared
        given = {} if sizes is None else {"sizes": sizes}
        return community_parties(**given, dense=dense, shared=8 if shared else 0)  # type: ignore[arg-type]

    @cached_property
    def usual(self) -> Outcome:
        """Three rounds, trained once for all laws that compare with them."""
        return train(self.method, self.parties(), keep=True, heard=self.heard)


class Law(NamedTuple):
    """``check`` gives what is broken, in words; None where the law has no meaning."""

    name: str
    says: str
    check: Callable[[Subject], str | None]
    # What most often breaks it.
    look_for: str


@dataclass(frozen=True)
class Finding:
    """What came of one law: ``kept``, ``broken`` or ``no meaning here``."""

    law: Law
    broken: str | None

    @property
    def verdict(self) -> str:
        if self.broken is None:
            return "no meaning here"
        return "broken" if self.broken else "kept"


def cohorts(subject: Subject) -> str | None:
    """All at once, in chunks, one by one. Also catches a leak between clients."""
    method = replace(subject.method, epochs=2)
    for dense_features in (False, True):
        parties = subject.parties(dense=dense_features)
        whole = train(method, parties, keep=True)
        for chunk in (1, 3):
            other = train(method, parties, chunk=chunk, keep=True)
            words = first_difference(whole, other, TOLERANCE)
            if words:
                return f"all at once and {chunk} at a time differ {words}"
    return ""


def wire(subject: Subject) -> str | None:
    other = train(subject.method, subject.parties(), wire=True, keep=True)
    words = first_difference(subject.usual, other, TOLERANCE)
    return words and f"in memory and through bytes differ {words}"


def seeds(subject: Subject) -> str | None:
    parties = subject.parties()
    first, again = (train(subject.method, parties, seed=5, keep=True) for _ in range(2))
    words = first_difference(first, again, 0.0)
    if words:
        return f"two runs with the same seed differ {words}"
    other = train(subject.method, parties, seed=6)
    same = (
        torch.equal(values(leaf), values(other.clients[n])) for n, leaf in first.clients.items()
    )
    return "another seed gives the same result" if all(same) else ""


def positions(subject: Subject) -> str | None:
    if subject.method.pooled:
        return None
    parties = subject.parties()
    order = list(range(len(parties)))[::-1]
    turned = train(subject.method, parties[::-1], numbers=order, keep=True)
    back = [s._replace(clients=take(s.clients, order), server={}) for s in turned.rounds]
    straight = [s._replace(server={}) for s in subject.usual.rounds]
    words = first_difference(
        replace(subject.usual, rounds=straight), replace(subject.usual, rounds=back), TOLERANCE
    )
    return words and f"clients in another order differ {words}"


def resumed(subject: Subject) -> str | None:
    """The rest of the run by another object of the method, from states that went through bytes."""
    other = train(subject.method, subject.parties(), keep=True, resumed_by=(1, subject.fresh()))
    words = first_difference(subject.usual, other, SAME)
    return words and f"uninterrupted and resumed after round 1 differ {words}"


def private(subject: Subject) -> str | None:
    """Not by name only but by numbers: no reply holds a client's data or private state."""
    parties, outcome, sent = subject.parties(), subject.usual, subject.heard
    table = outcome.fed.ledger.table()
    named = sorted(set(table.filter(direction="up")["kind"]) & subject.method.private)
    if named:
        return f"the private kind '{named[0]}' was sent"
    whole = {_numbers(values(leaf)): name for name, leaf in sent}
    states = {
        f"the client's own '{n}'": values(leaf)
        for n, leaf in outcome.clients.items()
        if kind(n) in subject.method.private
    }
    said = {_numbers(row): name for name, leaf in sent for row in _rows(values(leaf))}
    data: dict[str, torch.Tensor] = {}
    for client, g in enumerate(parties):
        parts = {"features": dense(g.x), "labels": g.y, "edges": g.edges}
        data |= {f"client {client}'s {w}": of_numpy(p) for w, p in parts.items()}
    # Of a state only as a whole: single rows of it may be what others have sent.
    for secrets, replies in ((states, whole), (data, said)):
        for what, secret in secrets.items():
            for row in _rows(secret):
                name = replies.get(_numbers(row))
                if name is not None:
                    return f"the reply '{name}' holds {what}, number for number"
    return ""


def _rows(whole: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor and its rows, as far as they tell anything: zeros alone do not."""
    for part in (whole, *whole) if whole.dim() else ():
        if part.numel() > 1 and (part != part.flatten()[0]).any():
            yield part


def _numbers(part: torch.Tensor) -> tuple[tuple[int, ...], bytes]:
    return tuple(part.shape), part.detach().double().contiguous().cpu().numpy().tobytes()


def learns(subject: Subject) -> str | None:
    parties = subject.parties((40, 50, 45))
    outcome = train(subject.method, parties, rounds=40)
    accuracy = float(np.asarray(outcome.replies.body["metric/accuracy"])[:, 2].mean())
    majority = float(np.mean([np.bincount(g.y[g.test]).max() / g.test.sum() for g in parties]))
    if accuracy > majority + 0.1:
        return ""
    return (
        f"after 40 rounds the test accuracy is {100 * accuracy:.1f} %, where always guessing the "
        f"commonest class gives {100 * majority:.1f} %"
    )


def bad_replies(subject: Subject) -> str | None:
    if subject.method.pooled:
        return None
    spoiled, missing = (
        train(subject.method, subject.parties(), keep=True, spoiled=Spoiled(1, 2, how))
        for how in ("nan", "missing")
    )
    if not spoiled.spoiled:
        return None
    words = first_difference(missing, spoiled, TOLERANCE)
    return words and (
        f"with client 1 not a number in round 2, and with client 1 missing then, it differs {words}"
    )


def runs(subject: Subject) -> str | None:
    """All other laws need this one."""
    assert subject.usual.replies.clients
    return ""


LAWS = (
    Law(
        "runs",
        "three rounds on six small parties",
        runs,
        "the line above; parties are small, and tensors must be of client.dtype",
    ),
    Law(
        "cohort",
        "all clients at once, in chunks and one by one give the same numbers",
        cohorts,
        "a sum, mean, norm or sort over the first axis, which is that of clients, or randomness "
        "that is not client.rng's",
    ),
    Law(
        "wire",
        "through bytes, one process per client, it gives the same numbers as in memory",
        wire,
        "something that server and clients share without sending it, or a reply that is changed "
        "after it was made",
    ),
    Law(
        "seed",
        "the same seed gives the same result, another seed another",
        seeds,
        "torch.rand, numpy.random or dropout of torch: draw from client.rng.streams[i] at clients "
        "and from fed.rng(...) at the server",
    ),
    Law(
        "position",
        "a client's result does not depend on its place among the others",
        positions,
        "an index in the cohort used as the client's number: that is client.cohort.clients[i]",
    ),
    Law(
        "resume",
        "interrupted and resumed, it ends with the same numbers",
        resumed,
        "something remembered outside the states (an attribute, a global variable, a cache): "
        "return it from round(), or keep it in client.state",
    ),
    Law(
        "private",
        "nothing private leaves a client, neither by name nor by value",
        private,
        "a Reply with a kind that the method lists as private, or with data under another name",
    ),
    Law(
        "learns",
        "it beats guessing the commonest class",
        learns,
        "a model that is trained but not kept, or averaged but not sent back",
    ),
    Law(
        "bad replies",
        "a reply that is not a number is left out, and the others go on",
        bad_replies,
        "a server that counts on everybody: use replies.clients and replies.rows",
    ),
)


def check_laws(subject: Subject) -> Iterator[Finding]:
    """One finding per law, as they come; a method that does not even run has one only."""
    before = logging.getLogger("atoll").level
    logging.getLogger("atoll").setLevel(logging.ERROR)  # spoiled replies are meant to be
    try:
        for law in LAWS:
            finding = _checked(law, subject)
            yield finding
            if finding.broken and "usual" not in vars(subject):
                return
    finally:
        logging.getLogger("atoll").setLevel(before)


def _checked(law: Law, subject: Subject) -> Finding:
    try:
        return Finding(law, law.check(subject))
    except PrivacyViolation as problem:
        stopped = next(law for law in LAWS if law.check is private)
        return Finding(stopped, f"it was stopped at the client's door: {_short(str(problem))}")
    except Exception as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        own = [f for f in frames if "/atoll/" not in f.filename.replace("\\", "/")]
        where = (own or list(frames))[-1]
        text = f"{type(problem).__name__}: {_short(str(problem))}"
        return Finding(law, f"it fails in {where.filename}, line {where.lineno}, with {text}")


def _short(text: str) -> str:
    """The first line, with no more than the first of many names in brackets."""
    return re.sub(r"\[('[^']*'), [^]]*\]", r"\1 and others", text.split("\n")[0])
