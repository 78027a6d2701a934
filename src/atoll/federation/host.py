"""The client side: holds the private data and state of some clients and performs steps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from atoll.cohort import Cohort
from atoll.federation.protocol import Call, Performer
from atoll.federation.validation import Batch
from atoll.rng import CohortRng
from atoll.tree import Tree, kind, put, stack, take

_REMEMBERED_COHORTS = 64


class PrivacyViolation(RuntimeError):
    """A method tried to send what it declares private. A bug in the method."""


class Host:
    """K >= 1 clients in one process: all of them in a simulation, one at a real site.

    ``chunk`` bounds how many clients a step serves at once (0: all). It changes memory and
    speed, never results but for rounding. Clients that were elsewhere before bring their ``state``.
    """

    def __init__(
        self,
        method: Performer,
        cohort: Cohort,
        seed: int,
        chunk: int = 0,
        state: Tree | None = None,
    ) -> None:
        self.method = method
        self.cohort = cohort
        self.seed = seed
        self.chunk = chunk or cohort.k
        self._position = {client: p for p, client in enumerate(cohort.clients)}
        self._cohorts: OrderedDict[tuple[int, ...], Cohort] = OrderedDict()
        if state is None:
            state = stack([self._join(part) for part in self._parts(range(cohort.k))])
        self.state = state

    def perform(self, call: Call, to: Sequence[int], each: Tree) -> Iterator[Batch]:
        """Perform a step for some clients, a chunk at a time."""
        positions = [self._position[client] for client in to]
        for start, part in enumerate(self._parts(positions)):
            cohort = self._cohort(part)
            first = start * self.chunk
            rows = take(each, range(first, first + len(part)))
            rng = CohortRng(self.seed, cohort.clients, call.round, call.key)
            try:
                state, batch = self.method.perform(call, rows, cohort, take(self.state, part), rng)
            except Exception as problem:
                problem.add_note(
                    f"in step '{call.step}' of round {call.round} for clients {cohort.clients}; "
                    f"--chunk 1 tells which of them"
                )
                raise
            self._refuse_private(call.step, batch.body)
            try:
                self.state = put(self.state, part, state, self.cohort.k)
            except (ValueError, RuntimeError) as problem:
                problem.add_note(f"after step '{call.step}' of round {call.round}")
                raise
            yield batch

    def _join(self, part: tuple[int, ...]) -> Tree:
        cohort = self._cohort(part)
        rng = CohortRng(self.seed, cohort.clients, 0, "join")
        return self.method.first_state(cohort, rng)

    def _parts(self, positions: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(positions[i : i + self.chunk]) for i in range(0, len(positions), self.chunk)]

    def _cohort(self, part: tuple[int, ...]) -> Cohort:
        """The packed cohort of some clients, kept for the next round."""
        if part == tuple(range(self.cohort.k)):
            return self.cohort
        if part not in self._cohorts:
            self._cohorts[part] = self.cohort.take(part)
            if len(self._cohorts) > _REMEMBERED_COHORTS:
                self._cohorts.popitem(last=False)
        return self._cohorts[part]

    def _refuse_private(self, step: str, body: Tree) -> None:
        secret = sorted(name for name in body if kind(name) in self.method.private)
        if secret:
            raise PrivacyViolation(
                f"step '{step}' of {type(self.method).__name__} replies with {secret}, of a kind "
                f"it declares private"
            )
