"""The errors a user is meant to read: one sentence naming the culprit and the remedy."""

from collections.abc import Iterable
from difflib import get_close_matches


class AtollError(Exception):
    """Something the user can mend. The command line prints it and exits with code 2."""


class Interrupted(AtollError):
    """The user stopped the run; its directory can be resumed."""


class NoReplies(AtollError):
    """No client gave a usable reply to a request."""


def unknown(kind: str, name: str, known: Iterable[str]) -> AtollError:
    """An error for a name that does not exist, suggesting the nearest that does."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"there is: {', '.join(names)}."
    return AtollError(f"unknown {kind} '{name}': {hint}")
