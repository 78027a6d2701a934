"""The leak meter: attacks on the messages that a run has kept, against its clients' own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from atoll.errors import unknown
from atoll.experiment.runner import load_parties, read_experiment
from atoll.federation.messages import read_messages
from atoll.privacy.attacks import ATTACKS, Evidence, Finding
from atoll.privacy.attacks.evidence import ATTACKERS

Advance = Callable[[str, int, int], None]


def attacked(
    run_dir: Path, names: Sequence[str] = (), advance: Advance = lambda what, done, of: None
) -> list[Finding]:
    """What attacks find in a run, as its server and as one of its clients.

    ``advance`` hears of each victim that an attack is through with.
    """
    for name in names:
        if name not in ATTACKS:
            raise unknown("attack", name, ATTACKS)
    experiment = read_experiment(run_dir)
    messages = read_messages(run_dir)
    parties = load_parties(experiment)
    evidence = Evidence(messages, parties.graphs, experiment.method, parties.anchors)
    chosen = list(names) or list(ATTACKS)
    total = len(chosen) * sum(len(evidence.victims(attacker)) for attacker in ATTACKERS)
    found: list[Finding] = []
    done = 0
    for name in chosen:

        def step(name: str = name) -> None:
            nonlocal done
            done += 1
            advance(name, done, total)

        for attacker in ATTACKERS:
            found += ATTACKS[name](evidence, attacker, step)
    return found
