"""What a method does, learnt by rehearsing it: which steps, in which order, in which form.

A site rehearses a run before it takes part: a few rounds of the method's own server and clients, on
small made-up parties with as many features and classes as its own data, with the run's options, and
with the code that is installed at the site. So what is declared is what that code does, and nobody
else has a say in it. Two rehearsals with parties of other numbers and sizes tell lengths that
depend on these from lengths that must be kept.

The server's part of a method decides which step comes when. A round may have any of the sequences
that were rehearsed; a site that sits some steps out sees a part of one, in the same order. A step
that was performed in two rounds running may come in every round; one that was performed in a single
round comes once in a run, unless the method says how often it recurs
(:attr:`~atoll.methods.base.Method.recurring`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from atoll.deploy.policy.forms import Form, forms_of, misfit
from atoll.errors import AtollError, NoReplies
from atoll.experiment.config import Experiment, describe
from atoll.experiment.runner import load_parties, simulate
from atoll.experiment.trial import SmallParties, on_small_parties
from atoll.federation.calls import Call
from atoll.federation.codec import step_answer, step_request
from atoll.federation.inprocess import InProcess
from atoll.federation.validation import Batch
from atoll.methods.base import Method
from atoll.tree import Tree, kind, take

log = logging.getLogger("atoll")
_ROUNDS = 4
_REMEMBERED = 64


@dataclass(frozen=True)
class Exchange:
    """What a step is sent and what it answers, by name in the message."""

    step: str
    down: Mapping[str, Form]
    up: Mapping[str, Form]

    @property
    def key(self) -> tuple[Any, ...]:
        ways = (self.down, self.up)
        return (
            self.step,
            *(tuple((n, *(p.key for p in f)) for n, f in sorted(way.items())) for way in ways),
        )

    def merged(self, other: Exchange) -> Exchange:
        def both(a: Mapping[str, Form], b: Mapping[str, Form]) -> dict[str, Form]:
            return {
                n: tuple(p.merged(q) for p, q in zip(f, b[n], strict=True)) for n, f in a.items()
            }

        return Exchange(self.step, both(self.down, other.down), both(self.up, other.up))

    @property
    def leaving(self) -> dict[str, Form]:
        """What it answers, by the method's own names."""
        return {name.removeprefix("body/"): form for name, form in self.up.items()}


@dataclass(frozen=True)
class Declared:
    """The steps of a method: their sequences in a round, their forms, and how often they come."""

    sequences: tuple[tuple[str, ...], ...]
    exchanges: tuple[Exchange, ...]
    # Steps that do not come in every round: after how many rounds again, 0 for once in a run.
    seldom: Mapping[str, int] = field(default_factory=dict)

    @property
    def steps(self) -> set[str]:
        return {exchange.step for exchange in self.exchanges}

    @property
    def kinds(self) -> set[str]:
        """The kinds of what leaves, the site's own weight aside."""
        return {kind(n) for e in self.exchanges for n in e.leaving if n != "weight"}

    def bytes_per_round(self) -> int:
        """What leaves in the busiest round, as far as it is the same for all parties."""
        of_step: dict[str, int] = {}
        for exchange in self.exchanges:
            size = sum(p.fixed_bytes for form in exchange.up.values() for p in form)
            of_step[exchange.step] = max(size, of_step.get(exchange.step, 0))
        return max((sum(of_step[s] for s in sequence) for sequence in self.sequences), default=0)

    def refusal(self, step: str, down: Mapping[str, Form]) -> str:
        """Why a step is not one that is declared, or nothing."""
        return self._nearest([e.down for e in self.exchanges if e.step == step], down)

    def misreply(self, step: str, up: Mapping[str, Form]) -> str:
        """Why an answer is not one that is declared, or nothing."""
        return self._nearest([e.up for e in self.exchanges if e.step == step], up)

    def _nearest(self, declared: list[Mapping[str, Form]], found: Mapping[str, Form]) -> str:
        wrong = [misfit(found, forms) for forms in declared]
        return "" if "" in wrong else min(wrong, key=len, default="there is no such step")


class NotRehearsed(AtollError):
    """What a method does could not be found out, so nobody can say that it is admitted."""


def declared(
    experiment: Experiment,
    features: int,
    classes: int,
    class_names: tuple[str, ...] = (),
    collection: bool = False,
) -> Declared:
    """What a run's method does at a site with so many features and classes.

    ``collection`` says that the site holds many small graphs.
    """
    like = SmallParties(features, classes, class_names=class_names, collection=collection)
    table = {k: v for k, v in describe(experiment).items() if k not in _ELSEWHERE}
    key = json.dumps([table, asdict(like)], sort_keys=True, default=str)
    with _lock:
        if key not in _known:
            if len(_known) >= _REMEMBERED:
                _known.clear()
            with _hushed():
                _known[key] = _rehearsed(experiment, like)
        return _known[key]


# Where data comes from does not change what a method does.
_ELSEWHERE = ("data", "split", "partition")
_known: dict[str, Declared] = {}
_lock = threading.Lock()


@contextmanager
def _hushed() -> Iterator[None]:
    """What a method remarks on made-up parties is no news; other threads speak on."""
    here = threading.get_ident()

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    log.addFilter(from_elsewhere)
    try:
        yield
    finally:
        log.removeFilter(from_elsewhere)


def _rehearsed(experiment: Experiment, like: SmallParties) -> Declared:
    method = _quick(experiment.method)
    # Enough nodes, or graphs of four nodes, of every class for each fold of the split.
    rows = 12 * like.classes + 8 if like.collection else max(15, 2 * like.classes)
    performed: list[list[tuple[str, ...]]] = []
    exchanges: dict[tuple[Any, ...], Exchange] = {}
    for sizes in (
        replace(like, parties=4, common=20 if like.collection else 18, own=rows),
        replace(like, parties=3, common=16 if like.collection else 14, own=rows + 8),
    ):
        try:
            stage = _rehearsal(replace(experiment, method=method), sizes)
        except Exception as problem:
            first = str(problem).split("\n")[0].rstrip(".")
            raise NotRehearsed(
                f"{method.registered_name} can't be rehearsed on small parties ({first}), so what "
                f"it does is not known."
            ) from problem
        performed.append(stage.sequences)
        for exchange in stage.exchanges:
            seen = exchanges.get(exchange.key)
            exchanges[exchange.key] = exchange if seen is None else seen.merged(exchange)
    sequences = dict.fromkeys(sequence for rounds in performed for sequence in rounds)
    return Declared(tuple(sequences), tuple(exchanges.values()), _seldom(method, performed))


def _quick(method: Method) -> Method:
    """Later phases within the first rounds; how long clients train changes nothing that is sent."""
    return replace(method.hurried(), epochs=1)


def _rehearsal(experiment: Experiment, sizes: SmallParties) -> _Stage:
    small = on_small_parties(experiment, sizes)
    fed, state = simulate(small, load_parties(small))
    stage, method = _Stage(fed.host), small.method
    stage.averaging = fed.averaging
    for r in range(1, _ROUNDS + 1):
        stage.begin(r)
        stage.sequences.append(())
        with suppress(NoReplies):  # such a round changes nothing, as in a run
            state = method.round(stage, state, r)
        with suppress(NoReplies):
            method.measure(stage, state)
        if method.finished(state):
            break
    with suppress(NoReplies):
        method.conclude(stage, state)
    return stage


class _Stage(InProcess):
    """A simulation that notes every step with the messages that a site would get and send."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.sequences: list[tuple[str, ...]] = []
        self.exchanges: list[Exchange] = []

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        self.sequences[-1] += (call.step,)
        request = step_request(call, take(each, [0]))
        for batch in super().deliver(call, to, each):
            weight = None if batch.weight is None else batch.weight[:1]
            one = Batch(batch.clients[:1], take(batch.body, [0]), weight)
            answer = step_answer(request, one)
            self.exchanges.append(
                Exchange(call.step, forms_of(request.tree), forms_of(answer.tree))
            )
            yield batch


def _seldom(method: Method, performed: list[list[tuple[str, ...]]]) -> dict[str, int]:
    often = {
        step
        for rounds in performed
        for one, next_one in pairwise(rounds)
        for step in set(one) & set(next_one)
    }
    steps = {step for rounds in performed for sequence in rounds for step in sequence}
    recurring = method.recurring
    return {step: recurring.get(step, 0) for step in sorted(steps - often)}
