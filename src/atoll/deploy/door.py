"""A site's door: what the coordinator has not signed is refused before anything of it is read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from atoll.deploy.attempts import Attempts
from atoll.deploy.envelope import Forged, Label, opened, sealed
from atoll.deploy.identity import Identity
from atoll.deploy.plan import is_run_name
from atoll.deploy.voice import parted
from atoll.federation.codec import Answer

log = logging.getLogger("atoll")
REFUSED = b""
# Answers what was let through, given what its envelope says of it.
Handle = Callable[[bytes, Label], bytes]


class Door:
    """Lets signed requests through to ``handle``, each once, and signs what it answers.

    Whoever is refused gets nothing and changes nothing; a line in the log says that it happened.
    ``state`` is the site's folder of runs.
    """

    def __init__(self, identity: Identity, state: Path, handle: Handle) -> None:
        self.identity = identity
        self.state = state
        self._handle = handle
        self._runs: dict[str, Attempts] = {}
        self._last: tuple[Label, bytes] | None = None
        self._lock = threading.Lock()

    def handle(self, message: bytes) -> bytes:
        """Answer a request as it comes off the wire."""
        try:
            label, content = self._admitted(message)
        except Forged as problem:
            log.warning("a message was refused: %s.", problem)
            return REFUSED
        try:
            with self._lock:
                if self._last is not None and self._last[0] == label:
                    return self._last[1]
                self._take(label)
        except Exception as problem:  # a repetition, a leap, a full disk: it is not answered
            log.warning("a request was refused: %s (%s).", type(problem).__name__, problem)
            return self._signed(label, Answer(label.id, error=type(problem).__name__).encode())
        reply = self._signed(label, self._handle(content, label))
        if label.run:
            self._last = (label, reply)
        return reply

    def _admitted(self, message: bytes) -> tuple[Label, bytes]:
        """What the coordinator says to this site; everything else is an error."""
        roster, envelope = parted(message)
        if roster:
            self.identity.learn(roster)
        label, content = opened(self.identity.coordinator, "request", envelope)
        if label.site != self.identity.name:
            raise Forged(f"it is for another site, '{label.site}'")
        if label.run and not is_run_name(label.run):
            raise Forged("it names a run that can't be")
        if not self.identity.on_roster:
            raise Forged("this site was revoked")
        return label, content

    def _take(self, label: Label) -> None:
        if not label.run:  # a ping, which changes nothing
            return
        if label.run not in self._runs:
            self._runs[label.run] = Attempts(self.state / label.run)
        self._runs[label.run].take(label.attempt, label.id)

    def _signed(self, label: Label, content: bytes) -> bytes:
        return sealed(self.identity.signing, "answer", label, content)
