"""What an operator may do with an engine: start a run's job, watch it, stop it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import ClassVar, Literal

from atoll.deploy.plan import Plan
from atoll.errors import AtollError

JobState = Literal["waiting", "running", "ended"]


class OutOfTouch(AtollError):
    """The engine did not answer its operator; it may do so again in a while."""


class Operator(ABC):
    """An engine as its operator sees it. A run may take several jobs, one after the other.

    Any of these may raise :class:`OutOfTouch`.
    """

    # How often to ask after a job: the coordinator's own word is read at once, from its files.
    seconds_between_calls: ClassVar[float] = 5.0

    @abstractmethod
    def submit(self, plan: Plan) -> str:
        """Start a job that begins or continues a run; returns its id."""

    @abstractmethod
    def state(self, job: str) -> JobState: ...

    @abstractmethod
    def stop(self, job: str) -> None: ...

    @abstractmethod
    def connected(self) -> set[str]:
        """The sites that the engine can reach now."""

    def outside(self, job: str, sites: Collection[str]) -> set[str]:
        """Which of these sites could work again, but only in a new job."""
        return set()

    def close(self) -> None:
        return None


def wait_for_operator(
    connect: Callable[[], Operator], check: Callable[[], None], seconds: float
) -> Operator:
    """The operator of a server that is starting. ``check`` raises if it will never be up."""
    until = time.monotonic() + seconds
    while True:
        check()
        try:
            return connect()
        except OutOfTouch:
            if time.monotonic() > until:
                raise
            time.sleep(1.0)
