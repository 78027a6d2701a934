"""The models that were scored in the best round: what a run is remembered by, and used for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from atoll.archive import read_tree, write_tree
from atoll.errors import AtollError
from atoll.experiment.history import History
from atoll.federation.states import HOLDERS, Wanted
from atoll.methods.base import Method
from atoll.tasks.metrics import better
from atoll.tree import Kinds, Leaf, Tree, flat, kind, nested, prefixed, subtree, under

FILE = "best.safetensors"
# Two means over the same clients that differ by less may be equal but for rounding.
_ABOUT = 1e-9


@dataclass
class BestModels:
    """What clients were scored with in the best round so far, as far as it is here.

    ``tree`` has three parts: ``clients``, kinds of the clients' own state with a leading client
    axis; ``shared``, what was sent to all of them; ``each``, what was sent row by row.
    """

    method: Method
    round: int = 0
    score: float = float("nan")
    tree: Tree = field(default_factory=dict)
    _scores: np.ndarray | None = None

    def consider(
        self, history: History, val: float, server: Kinds, clients: Callable[[Wanted], Tree]
    ) -> None:
        """Keep a copy of the models of the round that was just recorded, if it is the best.

        ``clients`` gives the clients' states as far as they are wanted, which may have to be
        gathered.
        """
        near = self.round > 0 and abs(val - self.score) < _ABOUT
        worse = self.round > 0 and not (near or better(history.metric, val, self.score))
        if val != val or worse:
            return
        scores = history.fresh[-1][f"val_{history.metric}"]
        if self._scores is not None and np.array_equal(scores, self._scores, equal_nan=True):
            return
        now = history.rounds[-1]["round"]
        if near and history.best().round != now:
            return
        self.round, self.score, self._scores = now, val, scores
        sent = {way: flat(kinds) for way, kinds in self.method.sent_to_score(server).items()}
        found = scored_with(self.method, sent, clients(_needed(self.method, sent)))
        self.tree = {name: _copied(self.tree.get(name), leaf) for name, leaf in found.items()}

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "score": self.score if self.round else None}

    def restore(self, tree: Tree, facts: dict[str, Any]) -> None:
        """Go on from what a checkpoint holds."""
        if facts.get("round"):
            self.round, self.score, self.tree = facts["round"], facts["score"], tree

    def store(self, run_dir: Path, best_round: int) -> None:
        """Write the models, if they are those of the best round and there are any."""
        if self.tree and self.round == best_round:
            write_tree(run_dir / FILE, self.tree, {"round": self.round})


def scored_with(method: Method, sent: Mapping[str, Tree], clients: Tree) -> Tree:
    """All that scoring clients depends on besides their data, in three parts.

    ``sent`` is what they were sent to be scored with: ``shared`` by all, and ``each`` its own row.
    """
    needed = _needed(method, sent)
    own = {name: leaf for name, leaf in clients.items() if needed(name)}
    if own and HOLDERS in clients:
        own[HOLDERS] = clients[HOLDERS]
    return (
        prefixed("clients", own)
        | prefixed("shared", sent.get("shared", {}))
        | prefixed("each", sent.get("each", {}))
    )


def _needed(method: Method, sent: Mapping[str, Tree]) -> Wanted:
    """Which leaves of a client's state its scores depend on, besides what it was sent."""
    replaced = {name for tree in sent.values() for name in tree}
    kinds = method.scorer.used_kinds

    def needed(name: str) -> bool:
        known = kind(name) in kinds if kinds else kind(name) != "optimizer"
        return known and name not in replaced

    return needed


def read_best(run_dir: Path, clients: int) -> tuple[Kinds, int]:
    """What clients were scored with, each leaf with a leading client axis, and the round."""
    if not (run_dir / FILE).is_file():
        raise AtollError(
            f"'{run_dir}' keeps no model of its best round; it was made by an older version, or by "
            f"a deployment, whose models are at the sites: run it anew, or name a site's state "
            f"with --state."
        )
    tree, facts = read_tree(run_dir / FILE)
    whole = by_kind(tree, clients)
    if whole is None:
        raise AtollError(
            f"'{run_dir}' keeps the models of those of its {clients:,} clients who took part, not "
            f"everybody's; score with the global model (method.evaluates=global), or use fewer."
        )
    return whole, int(facts["round"])


def by_kind(tree: Tree, clients: int) -> Kinds | None:
    """The three parts as kinds with a leading client axis; None where not everybody's are there."""
    whole = subtree(tree, "clients") | subtree(tree, "each")
    if HOLDERS in whole:
        return None
    shared = {n: p.expand(clients, *p.shape) for n, p in under(tree, "shared").items()}
    return nested(whole | shared)


def _copied(kept: Leaf | None, leaf: Leaf) -> Leaf:
    """A copy, in the memory of the last one where it fits: fresh memory costs more."""
    if isinstance(kept, Tensor) and isinstance(leaf, Tensor) and kept.shape == leaf.shape:
        return kept.copy_(leaf)
    return leaf.clone()
