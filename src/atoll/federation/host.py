"""The client side: holds the private data and state of some clients and performs steps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from atoll.cohort import Cohort
from atoll.federation.calls import Call, Performer
from atoll.federation.states import States, Wanted, states_of
from atoll.federation.validation import Batch
from atoll.rng import CohortRng
from atoll.tree import Tree, kind, stack, take

# Up to so many clients are served at once where nobody says how many; of more, in chunks.
AT_ONCE, CHUNK = 10_000, 1_000
# Packed cohorts are kept for the next round: so many, of so many numbers altogether.
_REMEMBERED_COHORTS, _REMEMBERED_NUMBERS = 64, 2**27


class PrivacyViolation(RuntimeError):
    """A method tried to send what it declares private. A bug in the method."""


class Host:
    """K >= 1 clients in one process: all of them in a simulation, one at a real site.

    ``chunk`` bounds how many clients a step serves at once (0: all, or :data:`CHUNK` where all
    are more than :data:`AT_ONCE`). It changes memory and speed, never results. The states of more
    than :data:`AT_ONCE` clients are made when they are first needed, and kept in files.
    Clients that were elsewhere before bring their ``state``.
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
        self.chunk = chunk or (cohort.k if cohort.k <= AT_ONCE else CHUNK)
        self._position = {client: p for p, client in enumerate(cohort.clients)}
        self._everybody = tuple(range(cohort.k))
        self._cohorts: OrderedDict[tuple[int, ...], Cohort] = OrderedDict()
        self._seen: set[int] = set()
        # Called after each chunk where all clients' data would not fit twice: to return memory.
        self.after_chunk: Callable[[], object] = lambda: None
        if state is None:
            self.states = states_of(cohort.k, self._joined, AT_ONCE)
        else:
            self.states = States(cohort.k, state)

    @property
    def state(self) -> Tree:
        """What clients keep to themselves: all that a checkpoint needs of it.

        Of more than :data:`AT_ONCE` clients these are the rows of those who have changed theirs.
        """
        return self.states.saved()

    @state.setter
    def state(self, saved: Tree) -> None:
        self.states.restore(saved)

    def kept(self, wanted: Wanted) -> Tree:
        """The part of :attr:`state` that is wanted, by names of leaves."""
        return self.states.saved(wanted)

    def hold_all(self) -> None:
        """Have all states at hand, for engines that lend and gather them by position."""
        self.states = States(self.cohort.k, self.states.whole())

    def perform(self, call: Call, to: Sequence[int], each: Tree) -> Iterator[Batch]:
        """Perform a step for some clients, a chunk at a time."""
        positions = [self._position[client] for client in to]
        for start, part in enumerate(self._parts(positions)):
            cohort = self._cohort(part)
            first = start * self.chunk
            rows = take(each, range(first, first + len(part)))
            rng = CohortRng(self.seed, cohort.clients, call.round, call.key)
            try:
                state, batch = self.method.perform(call, rows, cohort, self.states.take(part), rng)
            except Exception as problem:
                problem.add_note(
                    f"in step '{call.step}' of round {call.round} for clients {cohort.clients}; "
                    f"--chunk 1 tells which of them"
                )
                raise
            self._refuse_private(call.step, batch.body)
            try:
                self.states.put(part, state)
            except (ValueError, RuntimeError) as problem:
                problem.add_note(f"after step '{call.step}' of round {call.round}")
                raise
            yield batch
            if self.cohort.k > AT_ONCE:
                self.after_chunk()

    def _joined(self, positions: tuple[int, ...]) -> Tree:
        """The states that some clients begin with."""
        return stack([self._join(part) for part in self._parts(positions)])

    def _join(self, part: tuple[int, ...]) -> Tree:
        cohort = self._cohort(part)
        rng = CohortRng(self.seed, cohort.clients, 0, "join")
        return self.method.first_state(cohort, rng)

    def _parts(self, positions: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(positions[i : i + self.chunk]) for i in range(0, len(positions), self.chunk)]

    def _cohort(self, part: tuple[int, ...]) -> Cohort:
        """The packed cohort of some clients, kept for the next round.

        Of clients drawn at random only the last are kept, unless the same were drawn before.
        """
        if part == self._everybody:
            return self.cohort
        if part in self._cohorts:
            self._cohorts.move_to_end(part)
            return self._cohorts[part]
        made = self.cohort.take(part)
        self._forget_but(part)
        self._cohorts[part] = made
        return made

    def _forget_but(self, part: tuple[int, ...]) -> None:
        """Make room for a part, and forget a last one that may never come again."""
        if self.cohort.k > AT_ONCE:
            self._cohorts.clear()  # all of them would be the data a second time
        last = next(reversed(self._cohorts), None)
        run = last is not None and last == tuple(range(last[0], last[0] + len(last)))
        if last is not None and not run and hash(last) not in self._seen:
            self._seen.add(hash(last))
            del self._cohorts[last]
        while self._cohorts and (
            len(self._cohorts) >= _REMEMBERED_COHORTS
            or self._numbers(part) + sum(map(self._numbers, self._cohorts)) > _REMEMBERED_NUMBERS
        ):
            self._cohorts.popitem(last=False)

    def _numbers(self, part: tuple[int, ...]) -> int:
        """The features of some clients, about."""
        return len(part) * sum(self.cohort.sizes) * self.cohort.features // self.cohort.k

    def _refuse_private(self, step: str, body: Tree) -> None:
        secret = sorted(name for name in body if kind(name) in self.method.private)
        if secret:
            raise PrivacyViolation(
                f"step '{step}' of {type(self.method).__name__} replies with {secret}, of a kind "
                f"it declares private"
            )
