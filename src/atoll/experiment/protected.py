"""Protections that an experiment can't keep are refused before its first round."""

from __future__ import annotations

from dataclasses import replace

from atoll.errors import AtollError
from atoll.experiment.audit import audit_method
from atoll.experiment.config import Experiment
from atoll.experiment.trial import ROUNDS, on_small_parties, tried
from atoll.privacy.node_level import refuse_other_uses
from atoll.privacy.protections import Privacy
from atoll.privacy.robust import needed


def refuse_in_vain(experiment: Experiment, clients: int) -> None:
    """One sentence on what is promised and can't be kept."""
    privacy = experiment.privacy
    if privacy.epsilon and privacy.affordable < 1:
        raise AtollError(
            f"privacy.epsilon = {privacy.epsilon:g} allows not a single release at privacy.noise = "
            f"{privacy.noise:g}, which costs {privacy.spent(1):.3f}; raise one of them."
        )
    if privacy.unit == "node":
        refuse_other_uses(experiment.method)
    elif privacy.clip:
        # A reply that can't be clipped is refused by the client's door.
        tried(replace(on_small_parties(experiment), privacy=Privacy(clip=1.0)), ROUNDS)
    least = needed(privacy.robust, privacy.hostile)
    if privacy.robust != "none" and clients < least:
        raise AtollError(
            f"privacy.robust = '{privacy.robust}' against privacy.hostile = {privacy.hostile} "
            f"takes {least} clients, and there are {clients}; lower privacy.hostile or add clients."
        )
    if privacy.secure_sum:
        _refuse_single_replies(experiment)


def _refuse_single_replies(experiment: Experiment) -> None:
    """A method whose server needs more than sums is tried on small parties and told so."""
    plain = replace(experiment, privacy=Privacy())
    seen = audit_method(plain, ROUNDS, small=True).seen_one_by_one
    if seen:
        first = seen[0]
        raise AtollError(
            f"{experiment.method.registered_name} can't do with privacy.secure_sum: its server "
            f"needs the {first.kind} of every single client (step '{first.step}'); choose a method "
            f"that needs sums only, which atoll audit tells."
        )
