"""The rounds of a run, wherever its clients are: all in this process, or each at a site."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from atoll.errors import AtollError, NoReplies
from atoll.experiment.best import BestModels
from atoll.experiment.checkpoint import load_checkpoint, save_checkpoint
from atoll.experiment.config import Experiment
from atoll.experiment.embeddings import Scores
from atoll.experiment.history import History, Spent
from atoll.experiment.looks import Looks
from atoll.experiment.metric import metric_of
from atoll.experiment.result import Result, Size, store_result
from atoll.experiment.tables import restore_tables, store_tables
from atoll.federation.calls import Replies
from atoll.federation.messages import Messages
from atoll.federation.protocol import Federation
from atoll.federation.states import Wanted
from atoll.privacy.accounting import BudgetSpent
from atoll.privacy.spending import Budget
from atoll.tasks.pooled import from_counts, listening
from atoll.tree import Kinds, Tree, flat, kind

log = logging.getLogger("atoll")
# A round's scores, and whether it is the last round -> the scores with further ones.
Further = Callable[[Replies, bool], Replies]


@dataclass
class Rounds:
    """The server's side of a run: its state, how many rounds are done, and what they gave."""

    experiment: Experiment
    fed: Federation
    run_dir: Path
    state: Kinds = field(default_factory=dict)
    further: Further = lambda replies, last: replies
    done: int = 0
    # What the best round is chosen by.
    metric: str = ""
    # Rounds of this process that changed nothing, for want of a usable reply.
    idle: int = 0

    def __post_init__(self) -> None:
        self.method = self.experiment.method
        metric = self.metric or metric_of(self.experiment)
        looks = Looks(self.experiment.run.rounds)
        self.history = History(metric, self.method.task.extended, looks=looks)
        self.best = BestModels(self.method)
        if self.experiment.run.keep_messages:
            self.fed.messages = Messages()
        self.budget = Budget(self.experiment.privacy)

    @property
    def over(self) -> bool:
        return self._ends(self.done, self.state) or bool(self.budget.ended)

    def complete(self) -> float:
        """The next round, scored if it is its turn; returns the mean validation score over clients.

        A round without a usable reply changes nothing but counts. One that an error ends is not
        recorded: state and number of rounds are those before it.
        """
        r, state = self.done + 1, self.state
        started, entries = time.perf_counter(), len(self.fed.ledger.entries)
        before = dict(self.fed.releases)
        self.fed.begin(r)
        try:
            state = self.method.round(self.fed, state, r)
            if not _are_kinds(state):
                raise TypeError(
                    f"round of {type(self.method).__name__} must return the server's next state, "
                    f"as in {{'model': {{...}}}}"
                )
            if spoiled := _not_finite(state):
                state = self.state
                raise NoReplies(f"{spoiled} of the server would not be finite")
        except BudgetSpent as problem:
            self.budget.ended = f"training ended in round {r}: {problem}"
        except NoReplies as problem:
            self.idle += 1
            log.warning("round %d changes nothing: %s", r, problem)
        further = self.budget.allows_another(
            r, self.experiment.run.rounds, before, self.fed.releases
        )
        last = self._ends(r, state) or not further
        scored = last or self.experiment.run.is_scored(r)
        with listening() as listener:
            replies = self.method.measure(self.fed, state) if scored else None
        seconds = time.perf_counter() - started
        up, down = (self.fed.ledger.bytes(way, since=entries) for way in ("up", "down"))
        self._keep_messages(f"round-{r:06d}")
        self.state, self.done = state, r
        if replies is not None:
            replies = self.further(replies, last)
        val = self.history.add(r, replies, seconds, up, down, self._spent())
        self.history.looks.see(r, lambda: self.method.similarities(state), last)
        leads = self.history.leads(val)
        if leads or last:
            self.history.looks.hear(r, listener, leads)
            self.history.amend(listener.ranking())
            together = listener.over_all() or (replies and from_counts(replies.body))
            if together:
                self.history.add_over_all(r, together)
        return val

    def keep_if_best(self, val: float, clients: Callable[[Wanted], Tree]) -> None:
        """Keep the models that the last round was scored with if no round before was as good."""
        self.best.consider(self.history, val, self.state, clients)

    def save(self, clients: Tree) -> None:
        """All that the next round depends on; ``clients`` are the clients' states that are here."""
        tables = store_tables(self.run_dir, self.history, self.fed.ledger)
        best, of_best = self.best.tree, self.best.facts()
        save_checkpoint(self.run_dir, self.done, self.state, clients, best, of_best, tables)

    def restore(self) -> Tree | None:
        """Go back to what was saved last; returns the clients' states, or None if nothing was."""
        checkpoint = load_checkpoint(self.run_dir)
        if checkpoint is None:
            return None
        self.done, self.state = checkpoint.round, checkpoint.server
        self.best.restore(checkpoint.best, checkpoint.of_best)
        restore_tables(self.run_dir, checkpoint.tables, self.done, self.history, self.fed.ledger)
        spent = self.history.rounds[-1].get("releases") if self.history.rounds else None
        self.fed.releases.update(dict(zip(self.fed.clients, spent or (), strict=False)))
        return checkpoint.clients

    def count_interrupted(self) -> None:
        """Count the round that a killed server had begun, as often as its clients may have: what
        they sent has left them, though no row has it."""
        rows = [row.get("releases") or () for row in self.history.rounds[-2:]]
        if rows and rows[-1]:
            first = rows[0] if len(rows) > 1 else [0] * len(rows[0])
            per_round = (now - then for now, then in zip(rows[-1], first, strict=True))
            self.fed.releases.update(dict(zip(self.fed.clients, per_round, strict=True)))

    def conclude(self) -> Replies | None:
        """What follows the last round: the figures that the method ends with."""
        concluded = self.method.conclude(self.fed, self.state)
        self._keep_messages("round-last")
        return concluded

    def store(
        self,
        models: Tree,
        sizes: Sequence[Size],
        concluded: Replies | None,
        beside: Sequence[Scores] = (),
    ) -> Result:
        """The result, in the run directory and as an object.

        ``models`` are the clients' own as far as they are here; ``beside`` has further scores of
        each client at the best round.
        """
        if self.idle and self.idle == self.done:
            why = self.fed.rejections[0].reason if self.fed.rejections else "nobody answered"
            raise AtollError(
                f"none of the {self.done} rounds changed anything, since no reply could be used "
                f"(the first one: {why}); see the warnings above."
            )
        remarks = self.method.remarks(self.state, concluded)
        averaged = self.fed.averaging.remark() if self.fed.averaging is not None else ""
        kept = self.budget.scores_without_noise(self.method)
        remarks = [*remarks, *filter(None, (self.budget.ended, averaged, kept))]
        for remark in remarks:
            log.warning("%s: %s", self.method.registered_name, remark)
        rejected = len(self.fed.rejections)
        self.best.store(self.run_dir, self.history.best().round)
        return store_result(
            self.run_dir,
            self.experiment,
            self.history,
            self.state,
            models,
            sizes,
            rejected,
            concluded,
            remarks,
            beside,
        )

    def _keep_messages(self, name: str) -> None:
        if self.fed.messages is not None:
            self.fed.messages.store(self.run_dir, name)

    def _spent(self) -> Spent | None:
        """The clients' releases and epsilon so far, where noise makes them count."""
        if not self.experiment.privacy.noise:
            return None
        releases, clients = self.fed.releases, self.fed.clients
        return Spent(
            [releases[client] for client in clients], self.budget.epsilons(releases, clients)
        )

    def _ends(self, done: int, state: Kinds) -> bool:
        return done >= self.experiment.run.rounds or self.method.finished(state)


def _not_finite(state: Kinds) -> str:
    """The first leaf that no later round could mend: NaN, or a model's weights without bound."""
    for name, leaf in flat(state).items():
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            total = leaf.sum()  # what is not finite survives it
            bounded = kind(name) == "model"
            if total.isnan() or (bounded and total.isinf()):
                bad = leaf.isnan() if not bounded else ~leaf.isfinite()
                if bool(bad.any()):
                    return f"'{name}'"
    return ""


def _are_kinds(state: object) -> bool:
    return isinstance(state, dict) and all(isinstance(kind, dict) for kind in state.values())
