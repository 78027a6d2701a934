"""What a site's runs may spend of its privacy: settled when a run begins, and added up over all.

What was released is counted per run, as noise with that run's settings. So these, and the client's
number that the count is kept under, stay as they were in a run's first ``begin``: another noise
would give what has left another price, and another number would start the count anew. Nor does a
new run start from nothing: budgets of all runs add up (basic composition; so do their deltas).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll.deploy.policy.judging import Refused
from atoll.deploy.policy.protections import Protections
from atoll.deploy.policy.rules import Policy
from atoll.errors import AtollError
from atoll.files import read_json, write_json

_FILE = "promised.json"


def refuse_other_terms(
    policy: Policy, run: str, before: Mapping[str, Any] | None, now: Mapping[str, Any]
) -> None:
    """Refuse to begin a run with other protections, or as another client, than the first time."""
    if before is not None and _terms(before) != _terms(now):
        raise Refused(
            f"refused under {policy.name}: run {run} was begun with other settings of [privacy], "
            f"or as another client; it keeps what it began with."
        )


def promise(state: Path, policy: Policy, run: str, has: Protections, begun: bool) -> None:
    """Put a run's budget on record before it releases anything, or refuse the run.

    Whether the run has ``begun`` before is what its folder says. One that is promised and has no
    folder any more has no count of its releases either, so it may spend its budget once more.
    """
    most = policy.required.epsilon_in_all
    if not most:
        return
    promised = _read(state / _FILE)
    known = run in promised and begun
    mine = promised.get(run, 0.0) + (0.0 if known else has.epsilon)
    total = sum(epsilon for name, epsilon in promised.items() if name != run) + mine
    if not total <= most:
        raise Refused(
            f"{policy.name} lets all runs of this site together spend an epsilon of {most:g}, and "
            f"with run {run} they could spend {total:g}; raise required.epsilon_in_all if you "
            f"mean to go on."
        )
    if not known:
        write_json(state / _FILE, promised | {run: mine})


def _terms(facts: Mapping[str, Any]) -> tuple[Any, Any]:
    return facts["experiment"].get("privacy", {}), facts["client"]


def _read(file: Path) -> dict[str, float]:
    """A record that can't be read is no reason to begin anew at nothing."""
    if not file.exists():
        return {}
    found = read_json(file)
    if not isinstance(found, dict) or not all(type(e) in (int, float) for e in found.values()):
        raise AtollError(f"'{file}' is damaged; what this site has promised is not known.")
    return found
