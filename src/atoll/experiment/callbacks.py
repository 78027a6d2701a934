"""Who else is told how a run goes: loggers, or anything with the same three methods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from atoll.experiment.config import Experiment
from atoll.experiment.history import History
from atoll.experiment.result import Result

log = logging.getLogger("atoll")


@dataclass(frozen=True)
class Told:
    """What a round gave. A round that was not scored has no scores.

    ``means`` has each score by name (``val_accuracy``, ``train_loss``, ...) as its mean over
    clients, ``clients`` the same of each client; a client without nodes in a split has none there.
    """

    round: int
    seconds: float
    bytes_up: int
    bytes_down: int
    means: dict[str, float] = field(default_factory=dict)
    clients: dict[int, dict[str, float]] = field(default_factory=dict)


class Callback:
    """Override what you need; what is not overridden does nothing.

    A callback that fails is left out for the rest of the run, which goes on: a warning says so.
    """

    def start(self, experiment: Experiment, run_dir: Path) -> None:
        """Before the first round of this process; also when a run is resumed."""

    def round(self, told: Told) -> None:
        """After each round."""

    def end(self, result: Result | None) -> None:
        """At the end; ``None`` where the run was interrupted or failed."""


class Callbacks:
    """Several of them, none of which can end a run."""

    def __init__(self, members: Sequence[Callback]) -> None:
        self.members = list(members)

    def start(self, experiment: Experiment, run_dir: Path) -> None:
        self._each("at the start", lambda member: member.start(experiment, run_dir))

    def round(self, history: History) -> None:
        if self.members:
            told = told_of(history)
            self._each(f"in round {told.round}", lambda member: member.round(told))

    def end(self, result: Result | None) -> None:
        self._each("at the end", lambda member: member.end(result))

    def _each(self, when: str, call: Callable[[Callback], None]) -> None:
        for member in list(self.members):
            try:
                call(member)
            except Exception as problem:
                self.members.remove(member)
                log.warning(
                    "%s failed %s (%s: %s); the run goes on without it.",
                    type(member).__name__,
                    when,
                    type(problem).__name__,
                    problem,
                )


def told_of(history: History) -> Told:
    """The round that was recorded last."""
    facts = history.rounds[-1]
    columns = dict(history.latest())
    columns.pop("round", None)
    numbers = columns.pop("client", np.array([], dtype=np.int64))
    clients: dict[int, dict[str, float]] = {int(number): {} for number in numbers}
    means = {}
    for name, values in columns.items():
        known = {c: float(v) for c, v in zip(clients, values, strict=True) if v == v}
        for client, value in known.items():
            clients[client][name] = value
        if known:
            means[name] = sum(known.values()) / len(known)
    return Told(
        facts["round"], facts["seconds"], facts["bytes_up"], facts["bytes_down"], means, clients
    )
