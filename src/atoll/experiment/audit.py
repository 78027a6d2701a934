"""What leaves a site and what never does, read off the ledger of a run or of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.looking import look_at
from atoll.experiment.tables import read_own
from atoll.experiment.trial import on_small_parties, tried
from atoll.methods.base import Method
from atoll.tree import kind

# Why a kind stays with its client. A method of your own may declare others.
WHY_PRIVATE = {
    "features": "what is known of each node, the data itself",
    "labels": "what is to be predicted, the data itself",
    "edges": "who is linked to whom, the data itself",
    "optimizer": "the steps of training, which follow the gradients of the data",
    "global_optimizer": "the steps of training the global model at the site",
    "generator": "a model of the site's own neighbourhoods",
    "generator_optimizer": "the steps of training that model",
    "homophilous": "personal: the site's own model where neighbours are alike",
    "homophilous_optimizer": "the steps of training that model",
    "heterophilous": "personal: the site's own model where neighbours differ",
    "heterophilous_optimizer": "the steps of training that model",
    "phase": "how far the site's own training has come",
    "own_prior": "personal: what the site's own nodes are drawn towards",
    "mended": "the neighbours made up for the site's nodes",
    "halo": "what the site knows of others' nodes beside its own",
    "border": "what others added to sums over neighbours of the site's nodes",
    "pseudo": "the labels that the site guessed for its own nodes",
    "vectors": "one vector per node of the site, private nodes included",
    "contexts": "the other half of those vectors",
    "model": "personal: only what it computes for public nodes is sent",
    "mask": "personal: which weights the site uses",
    "weight": "personal: the weights before they are masked",
}
Use = Literal["score", "weight", "key", "content"]


@dataclass(frozen=True)
class Crossing:
    """One named tensor that crosses in a step, over all clients and rounds.

    ``use`` is ``score`` for figures about a model, ``weight`` for how much a client counts, ``key``
    for keys and shares of secure sums, and ``content`` for all else. ``each`` says whether the
    server sees every client's, or their sum only; None where it was not recorded, or nothing goes
    up. ``bytes_per_round`` are those of all clients in a round in which it crosses.
    """

    step: str
    direction: str
    use: Use
    kind: str
    name: str
    shape: str
    dtype: str
    each: bool | None
    rounds: int
    first_round: int
    messages: int
    bytes_per_message: int | None
    bytes_per_round: float
    bytes: int


@dataclass(frozen=True)
class Audit:
    """What crosses between a method's server and its sites, and what never does."""

    method: Method
    clients: int
    rounds: int
    # How it is known: "run", "trial" on the user's data, or "small trial" on built-in parties.
    source: Literal["run", "trial", "small trial"]
    crossings: list[Crossing]
    # Steps that the method has and that were not performed; a run does not tell.
    not_performed: list[str]
    # The address of a method that is no part of Atoll: looking at a run does not load it.
    unread: str = ""

    @property
    def leaving(self) -> list[Crossing]:
        return [crossing for crossing in self.crossings if crossing.direction == "up"]

    @property
    def seen_one_by_one(self) -> list[Crossing]:
        """What the server sees of every client, scores aside."""
        scores = {c.step for c in self.leaving} - {c.step for c in self.leaving if c.use != "score"}
        return [c for c in self.leaving if c.each and c.step not in scores and c.use != "key"]

    @property
    def sums_suffice(self) -> bool | None:
        """Whether all but scores may be hidden in sums; None where that was not recorded."""
        unknown = any(c.each is None for c in self.leaving)
        return None if unknown else not self.seen_one_by_one

    @property
    def never_leaves(self) -> dict[str, str]:
        """The kinds that are stopped at the site's door, and why; a pool of all data has none."""
        if self.method.pooled or self.unread:
            return {}
        private = sorted(self.method.private)
        return {name: WHY_PRIVATE.get(name, "declared so by the method") for name in private}

    @property
    def hurried(self) -> bool:
        """Whether later phases were brought forward."""
        return self.source != "run" and self.method.hurried() != self.method

    def facts(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "method": self.method.registered_name,
            "source": self.source,
            "clients": self.clients,
            "rounds": self.rounds,
            "crossings": [asdict(crossing) for crossing in self.crossings],
            "never_leaves": self.never_leaves,
            "sums_suffice": self.sums_suffice,
            "needs_anchors": self.method.needs_anchors,
            "needs_network": self.method.needs_network,
            "pooled": self.method.pooled,
            "only_simulated": self.method.pooled or bool(self.method.only_simulated),
            "hurried": self.hurried,
            "not_performed": self.not_performed,
        }


def audit_run(run_dir: Path) -> Audit:
    """What crossed in a run, by its ledger."""
    experiment, unread = look_at(run_dir)
    if not (run_dir / "ledger.parquet").is_file():
        raise AtollError(
            f"'{run_dir}' has no ledger.parquet: it has not saved a round yet, or was told not to "
            f"record what crosses; audit the method before a run, with --method "
            f"{unread or experiment.method.registered_name}."
        )
    table = read_own(run_dir / "ledger.parquet")
    if "verb" not in table.columns:
        table = table.with_columns(verb=polars.lit(None, polars.String))
    last = table["round"].max()
    return Audit(
        method=experiment.method,
        clients=table["client"].n_unique(),
        rounds=last if isinstance(last, int) else 0,
        source="run",
        crossings=crossings(table),
        not_performed=[],
        unread=unread,
    )


def audit_method(experiment: Experiment, rounds: int, small: bool) -> Audit:
    """What a method sends in its first rounds: on its data, or on small built-in parties."""
    trial = tried(on_small_parties(experiment) if small else experiment, rounds)
    steps = client_steps(experiment.method)
    return Audit(
        method=experiment.method,
        clients=len(trial.clients),
        rounds=rounds,
        source="small trial" if small else "trial",
        crossings=crossings(trial.ledger.table()),
        not_performed=sorted(steps - trial.steps),
    )


def client_steps(method: Method) -> set[str]:
    """The steps that a method's server may ask clients for."""
    cls = type(method)
    return {n for n in dir(cls) if getattr(getattr(cls, n), "is_client_step", False)}


def crossings(table: polars.DataFrame) -> list[Crossing]:
    """One entry per step, direction and named tensor, in the order in which they first cross."""
    found = []
    by = ["step", "direction", "name"]
    for group in table.partition_by(by, maintain_order=True):
        step, direction, name = (group[column][0] for column in by)
        rounds = group["round"].n_unique()
        total = int(group["bytes"].sum())
        verbs = set(group["verb"])
        sizes = group["bytes"].unique().to_list()
        found.append(
            Crossing(
                step=step,
                direction=direction,
                use=_use(name),
                kind=kind(name),
                name=name,
                shape=_shape(group.sort("bytes")["shape"].to_list()),
                dtype=group["dtype"][0],
                each=None if direction == "down" or None in verbs else "ask" in verbs,
                rounds=rounds,
                first_round=int(group["round"].min()),  # type: ignore[arg-type]
                messages=len(group),
                bytes_per_message=sizes[0] if len(sizes) == 1 else None,
                bytes_per_round=total / rounds,
                bytes=total,
            )
        )
    return found


def _use(name: str) -> Use:
    if name == "weight":
        return "weight"
    if kind(name) == "secure":
        return "content" if name == "secure/masked" else "key"
    return "score" if kind(name) == "metric" else "content"


def _shape(shapes: Sequence[str]) -> str:
    """The shape of all, or those of the smallest and the largest."""
    return shapes[0] if len(set(shapes)) == 1 else f"{shapes[0]} to {shapes[-1]}"
