"""Scores over all clients' test nodes together, which only a simulation can see.

They depend on every node's class and class scores, and these never leave a site. In a simulation
all clients are in this process, so that whoever asks them for scores can listen: nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from atoll.device import to_numpy
from atoll.graph import SPLITS
from atoll.tasks.metrics import EXTENDED, NO_SCORE, Cells, never_predicted

_TEST = SPLITS.index("test")


class Scored(NamedTuple):
    """The nodes of some clients as they were scored, and how."""

    cells: Cells
    guess: np.ndarray
    ranking_scores: Callable[[], np.ndarray]
    losses: np.ndarray
    positive: int
    precision: float
    class_names: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """The same as arrays, numbers and text, to be handed to another process."""
        found: dict[str, Any] = self._asdict()
        found["ranking_scores"] = self.ranking_scores()
        return found | {"cells": {f.name: getattr(self.cells, f.name) for f in fields(self.cells)}}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Scored:
        """The inverse of :meth:`plain`."""
        scores = plain["ranking_scores"]
        given = {"cells": Cells(**plain["cells"]), "ranking_scores": lambda: scores}
        return cls(**{**plain, **given})


class Tests(NamedTuple):
    """The test nodes of all clients together: class, guess and loss of each ``[n]``, and how much
    it looks like each ranked class ``[R, n]``; ``first`` is the group of clients heard first."""

    first: Scored
    y: np.ndarray
    guess: np.ndarray
    losses: np.ndarray
    ranking_scores: np.ndarray


class OverAll(NamedTuple):
    """Test scores over all nodes together, by metric, and the classes that no node is taken for."""

    scores: dict[str, float]
    never_predicted: tuple[str, ...]


@dataclass
class Listener:
    """What was scored last of each group of clients."""

    _heard: dict[tuple[int, ...], Scored] = field(default_factory=dict)
    # Clients that were scored on two tasks, of which the last one counts in tests.
    twice: bool = False
    # What was scored in other processes, and is fetched if anybody wants to know.
    _elsewhere: list[Callable[[], tuple[list[tuple[tuple[int, ...], Scored]], bool]]] = field(
        default_factory=list
    )

    @property
    def heard(self) -> dict[tuple[int, ...], Scored]:
        """By clients, in the order in which they were asked."""
        fetched, self._elsewhere = self._elsewhere, []
        for fetch in fetched:
            found, twice = fetch()
            self.twice |= twice
            for clients, scored in found:
                self.hear(clients, *scored)
        return self._heard

    def hear(self, clients: tuple[int, ...], *scored: Any) -> None:
        self.twice |= clients in self._heard
        self._heard[clients] = Scored(*scored)

    def hear_later(
        self, fetch: Callable[[], tuple[list[tuple[tuple[int, ...], Scored]], bool]]
    ) -> None:
        """What ``fetch`` has to say was scored: it takes time, and may not be wanted."""
        self._elsewhere.append(fetch)

    def ranking(self) -> dict[int, np.ndarray]:
        """Areas and recall of each client ``[3, splits]``, where one task was scored."""
        found: dict[int, np.ndarray] = {}
        for clients, part in self.heard.items():
            values = part.cells.ranking(part.ranking_scores(), part.precision)
            by_client = values.reshape(len(values), len(clients), len(SPLITS))
            found |= {client: by_client[:, i] for i, client in enumerate(clients)}
        return {} if self.twice else found

    def tests(self) -> Tests | None:
        """All test nodes; None where nobody was heard, or where clients tell different classes
        apart."""
        parts = list(self.heard.values())
        if not parts or len({part.cells.ranked for part in parts}) > 1:
            return None
        tests = [part.cells.cell % len(SPLITS) == _TEST for part in parts]
        y, guess, losses = (
            np.concatenate([column[t] for column, t in zip(columns, tests, strict=True)])
            for columns in zip(*((p.cells.y, p.guess, p.losses) for p in parts), strict=True)
        )
        return Tests(parts[0], y, guess, losses, _ranking_scores(parts, tests))

    def over_all(self) -> OverAll | None:
        """None where :meth:`tests` is, and where there is no test node."""
        together = self.tests()
        if together is None:
            return None
        first, y, guess, losses, scores = together
        if not len(y):
            return None
        cells = Cells(y, np.zeros_like(y), 1, first.cells.classes, first.cells.ranked)
        [row] = cells.extended(guess, scores, first.positive, first.precision).tolist()
        found = {"accuracy": float(np.mean(guess == y)), "loss": float(losses.mean())}
        found |= dict(zip(EXTENDED, row, strict=True))
        known = {name: float("nan") if s == NO_SCORE else s for name, s in found.items()}
        names = first.class_names or tuple(map(str, range(first.cells.classes)))
        missed = never_predicted(y, guess, first.cells.classes)
        return OverAll(known, tuple(names[c] if c < len(names) else str(c) for c in missed))


def _ranking_scores(parts: Sequence[Scored], chosen: Sequence[np.ndarray]) -> np.ndarray:
    """Those of the chosen nodes of all parts; only of one part at a time are they there twice."""
    ends = np.cumsum([np.count_nonzero(c) for c in chosen]).tolist()
    first = parts[0].ranking_scores()[:, chosen[0]]
    found = np.empty((len(first), ends[-1]), dtype=first.dtype)
    found[:, : ends[0]] = first
    for part, c, start, end in zip(parts[1:], chosen[1:], ends, ends[1:], strict=False):
        found[:, start:end] = part.ranking_scores()[:, c]
    return found


def from_counts(body: Mapping[str, Any]) -> OverAll | None:
    """What follows from the clients' own scores and numbers of nodes: means over nodes.

    That is all a server knows of sites: no site says how its nodes are spread over classes.
    """
    nodes = to_numpy(body["metric/nodes"])[:, _TEST]
    names = [name for name in ("accuracy", "loss") if f"metric/{name}" in body]
    if not nodes.sum():
        return None
    sums = {name: nodes @ to_numpy(body[f"metric/{name}"])[:, _TEST] for name in names}
    return OverAll({name: float(s / nodes.sum()) for name, s in sums.items()}, ())


LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening() -> Iterator[Listener]:
    """Hear what clients in this process score meanwhile."""
    listener = Listener()
    token = LISTENER.set(listener)
    try:
        yield listener
    finally:
        LISTENER.reset(token)
