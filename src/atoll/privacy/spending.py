"""How often a client has released something, and when it may do so no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from atoll.errors import AtollError
from atoll.files import read_json, write_json
from atoll.privacy.accounting import BudgetSpent
from atoll.privacy.protections import Privacy


@dataclass
class Spending:
    """The releases of the clients in this process, counted where they leave.

    At a site the count lies in ``file``, which no new attempt at a round takes back: what has been
    sent has been sent.
    """

    privacy: Privacy
    file: Path | None = None
    counts: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.is_file():
            self.counts = _read(self.file)

    def spend(self, clients: Sequence[int], releases: int) -> None:
        """Count releases that are about to leave, or refuse them."""
        if not self.privacy.noise or not releases:
            return
        for client in clients:
            after = self.counts[client] + releases
            if not self.privacy.affords(after):
                p = self.privacy
                raise BudgetSpent(
                    f"client {client} has spent its privacy budget: epsilon is "
                    f"{p.spent(self.counts[client]):.3f} and would be {p.spent(after):.3f}, above "
                    f"privacy.epsilon = {p.epsilon:g}."
                )
        for client in clients:
            self.counts[client] += releases
        if self.file is not None:
            write_json(self.file, {str(client): n for client, n in self.counts.items()})


def _read(file: Path) -> Counter[int]:
    """A count that can't be read is no reason to begin anew at zero."""
    found = read_json(file)
    if not isinstance(found, Mapping):
        raise AtollError(f"'{file}' is damaged; what the site has spent is not known.")
    try:
        return Counter({int(client): int(n) for client, n in found.items()})
    except (TypeError, ValueError):
        raise AtollError(f"'{file}' is damaged; what the site has spent is not known.") from None


@dataclass
class Budget:
    """What the server knows of the clients' spending, round by round."""

    privacy: Privacy
    # Why training ended before its last round, if it did.
    ended: str = ""

    def epsilons(self, releases: Mapping[int, int], clients: Sequence[int]) -> dict[int, float]:
        """Each client's epsilon so far."""
        return {client: self.privacy.spent(releases.get(client, 0)) for client in clients}

    def allows_another(
        self, round: int, rounds: int, before: Mapping[int, int], now: Mapping[int, int]
    ) -> bool:
        """Whether a further round like the last one fits; if not, a sentence says so."""
        p = self.privacy
        if not (p.noise and p.epsilon) or self.ended:
            return not self.ended
        after = max((2 * n - before.get(client, 0) for client, n in now.items()), default=0)
        if p.affords(after):
            return True
        spent = p.spent(max(now.values(), default=0))
        if round < rounds:
            self.ended = (
                f"the privacy budget is spent: training ended after round {round} of {rounds} with "
                f"epsilon {spent:.3f}, since another round would make it {p.spent(after):.3f}, "
                f"above privacy.epsilon = {p.epsilon:g}."
            )
        return False

    def scores_without_noise(self, method: object) -> str:
        """A word where clients are scored with models that never left them."""
        noised = self.privacy.noise and self.privacy.unit == "client"
        if not noised or getattr(method, "evaluates", "") != "local":
            return ""
        return (
            "scores are those of the models that clients have just trained and keep, which have no "
            "noise of their own; method.evaluates=global scores what everybody gets."
        )
