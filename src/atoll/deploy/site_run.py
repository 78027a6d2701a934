"""A run as one site sees it: its steps, its protections, and how far its state has got."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.deploy.attempts import Stale
from atoll.deploy.durable import MOST_ROUNDS_BACK, Durable
from atoll.deploy.identity import Identity
from atoll.deploy.policy.judging import Party, anchor_line, refuse_failing, steps_of
from atoll.deploy.policy.rules import Policy
from atoll.deploy.policy.watch import Sent, Watch
from atoll.deploy.scored import ScoredModels
from atoll.deploy.summing import SiteSigner
from atoll.errors import AtollError
from atoll.experiment.best import scored_with
from atoll.experiment.config import Experiment, resolve
from atoll.federation.calls import Performer
from atoll.federation.codec import Answer, Request, best_round, step_answer, step_call
from atoll.federation.host import Host
from atoll.graph import Graph
from atoll.privacy.door import guarded
from atoll.privacy.noise import SystemCoins
from atoll.privacy.spending import Spending
from atoll.rng import stream
from atoll.tree import copy


class NotBegun(RuntimeError):
    """A step of a run that this site does not know."""


class TooFarBack(RuntimeError):
    """A round that no coordinator begins again: what the site did since then would be lost."""


class RunAtSite:
    """One run's host at this site, and how far its state has got."""

    def __init__(
        self,
        graph: Graph,
        facts: dict[str, Any],
        durable: Durable,
        policy: Policy,
        identity: Identity | None,
    ) -> None:
        experiment = resolve(facts["experiment"])
        method, client, seed = experiment.method, int(facts["client"]), experiment.run.seed
        graph = method.task.prepare(graph, stream(seed, client, 0, "task"))
        missing = method.task.missing(graph) if method.needs_labels else ""
        if missing:
            raise AtollError(f"this site has no {missing}; {method.registered_name} needs some.")
        if method.needs_anchors:
            graph = graph.with_anchors(_own_anchors(durable, facts.get("anchors")))
            party = Party(graph.nodes, int(graph.train.sum()), len(graph.anchors))
            refuse_failing(policy, [anchor_line(policy, party)])
        threads = experiment.run.threads or torch.get_num_threads()
        torch.set_num_threads(min(threads, os.cpu_count() or 1))
        dtype = getattr(torch, experiment.run.dtype)
        self.durable = durable
        self.scored = ScoredModels(durable.folder)
        self.method = method
        steps = steps_of(experiment, graph)
        # What left in all runs is counted beside their folders.
        sent = Sent(durable.folder.parent)
        self.watch = Watch(policy, steps, experiment.run.rounds, durable, sent)
        self.signer = _signer(experiment, identity, client, durable)
        behind = _protected(experiment, durable, self.signer)
        self.host = Host(behind, Cohort([graph], [client], dtype), seed)
        self.labelled = int(self.host.cohort.labelled.sum())
        self._fresh = copy(self.host.state)
        self.attempt = -1
        self.round = 0
        found = durable.newest()
        if found is not None:
            self.host.state, self.round, self.attempt = found

    def step(self, request: Request) -> Answer:
        """Perform a step once; a new attempt starts from the state before its round."""
        call, row = step_call(request)
        if (request.attempt, call.round) < (self.attempt, self.round):
            raise Stale(f"attempt {request.attempt}, round {call.round}")
        anew = request.attempt != self.attempt
        if anew and call.round < self.round - MOST_ROUNDS_BACK:
            raise TooFarBack(f"round {call.round}, where {self.round} was the last")
        self.watch.admit(request, call)
        if anew:
            earlier = self.durable.rolled_back(call.round)
            self.host.state = copy(self._fresh) if earlier is None else earlier
            self.scored.forget(call.round)
        self.scored.heed(best_round(request.facts))
        if call.step == "evaluate" and self.method.scores_plainly:
            sent = {"shared": dict(call.shared), "each": row}
            self.scored.keep(call.round, scored_with(self.method, sent, self.host.state))
        if self.signer is not None:
            self.signer.attempt = request.attempt
        [batch] = self.host.perform(call, self.host.cohort.clients, row)
        self.durable.save(call.round, request.attempt, self.host.state)
        self.attempt, self.round = request.attempt, call.round
        answer = step_answer(request, batch)
        self.watch.release(call, answer)
        return answer


def _protected(experiment: Experiment, durable: Durable, signer: SiteSigner | None) -> Performer:
    """The method behind its door. Nobody who knows the seed may take noise away again, and no
    rollback what was spent."""
    spending = Spending(experiment.privacy, durable.folder / "spent.json")
    return guarded(experiment.method, experiment.privacy, SystemCoins(), spending, signer)


def _signer(
    experiment: Experiment, identity: Identity | None, client: int, durable: Durable
) -> SiteSigner | None:
    """What this site signs its part of secure sums with."""
    if not experiment.privacy.secure_sum:
        return None
    if identity is None:
        raise NotBegun("this site has no keys, so it has no peers")
    return SiteSigner(identity, durable.folder.name, client, durable)


def _own_anchors(durable: Durable, count: Any) -> np.ndarray:
    """The rows that this site itself found to be shared. The coordinator can leave the site without
    anchors, where its part of the matching was lost; it can't choose any."""
    found = durable.facts("anchors")
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    if found is None or count != len(found["rows"]):
        raise NotBegun("not the anchors that were matched here")
    return np.array(found["rows"], dtype=np.int64)
