"""What is compared: federations, methods, and the settings that make both sides do the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from atoll.errors import AtollError

HIDDEN, LR, DECAY, EPOCHS = 128, 0.01, 5e-4, 1
# Rounds before any is timed, then blocks of (rounds, threads), in which sides take turns.
WARM_UP = 2
LONG = [(7, 1)] * 4 + [(4, 2)] * 3
SHORT = [(4, 1), (4, 1), (2, 2)]
# CPU seconds per round of a side from which on a case is a short one.
SLOW = 1.5
# The peer's own number of generator rounds.
GENERATOR_STEPS = 10

FEDERATIONS = {
    "cora-10": ("cora", 10),
    "cora-50": ("cora", 50),
    "pubmed-10": ("pubmed", 10),
    "photo-10": ("amazon-photo", 10),
}
# The peer's default model has no linear classifier on top of its two convolutions.
_GRAPH_HEAD = {"name": "gcn", "hidden": HIDDEN, "head": "graph"}
_LINEAR_HEAD = {"name": "gcn", "hidden": HIDDEN, "head": "linear"}


@dataclass(frozen=True)
class Pairing:
    """A method here and at the peer, with the peer's settings wherever both can be set.

    ``config`` goes into the peer's own settings of the method, ``arguments`` into its command line.
    ``generator`` is the number of generator steps that come before the rounds. ``by_name``: it is
    there to explain another pairing, and measured only when it is named.
    """

    peer: str
    method: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=lambda: _GRAPH_HEAD)
    config: dict[str, Any] = field(default_factory=dict)
    generator: int = 0
    plain_loop: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    by_name: bool = False


PAIRINGS = {
    "fed-avg": Pairing("fedavg", plain_loop=True),
    "fed-prox": Pairing("fedprox", {"mu": 1e-3}, plain_loop=True),
    "fed-pub": Pairing("fedpub", {"tau": 10.0}, _LINEAR_HEAD),
    "fed-pub-as-published": Pairing("fedpub", {"tau": 10.0}, _LINEAR_HEAD),
    "fed-gta": Pairing("fedgta", {"spread": "training", "order": 10}),
    "scaffold": Pairing("scaffold", {"variates": "moved", "weights": "labelled"}),
    "moon": Pairing("moon", {"mu": 1.0, "tau": 0.5}),
    # FedSage+ without its generator, which the peer has no method for: FedAvg with the same model.
    "fed-sage": Pairing(
        "fedavg",
        model={"name": "sage", "hidden": HIDDEN},
        arguments={"model": ["graphsage"]},
        by_name=True,
    ),
    "fed-sage-plus": Pairing(
        "fedsage_plus",
        {"hide": 0.2, "local_steps": 0, "weights": "equal"},
        {"name": "sage", "hidden": HIDDEN},
        {"gen_rounds": GENERATOR_STEPS},
        generator=GENERATOR_STEPS,
    ),
}


@dataclass(frozen=True)
class Case:
    federation: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.federation}:{self.method}"

    @property
    def pairing(self) -> Pairing:
        return PAIRINGS[self.method]

    def order(self) -> dict[str, Any]:
        """What a side must know besides the parts."""
        pairing = self.pairing
        return {
            "method": self.method,
            "peer": pairing.peer,
            "options": pairing.method,
            "model": pairing.model,
            "config": pairing.config,
            "generator": pairing.generator,
            "hidden": HIDDEN,
            "lr": LR,
            "decay": DECAY,
            "epochs": EPOCHS,
            "seed": 0,
            # Of the peer's command line, where it is not to be as above.
            "arguments": dict(pairing.arguments),
            # Of the peer's FedSage+: see `begun` there.
            "start": "own",
        }


# The peer's generator compares node by node in Python: minutes per step on the larger federations.
ALL = [
    Case(federation, method)
    for federation in FEDERATIONS
    for method, pairing in PAIRINGS.items()
    if not pairing.by_name and (not pairing.generator or federation == "cora-10")
]


def chosen(patterns: list[str]) -> list[Case]:
    """The cases that one of the patterns names: ``cora-10``, ``fed-avg``, ``cora-*:fed-pub``."""
    if not patterns:
        return ALL
    everything = [Case(federation, method) for federation in FEDERATIONS for method in PAIRINGS]
    found = []
    for pattern in patterns:
        whole = [case for case in everything if fnmatch(case.name, pattern)]
        half = [case for case in ALL if pattern in (case.federation, case.method)]
        half = half or [case for case in everything if pattern == case.method]
        if not whole + half:
            raise AtollError(
                f"no case is called '{pattern}'; a case is FEDERATION:METHOD with federations "
                f"{', '.join(FEDERATIONS)} and methods {', '.join(PAIRINGS)}."
            )
        found += whole or half
    return sorted(set(found), key=everything.index)
