"""A site: one party's data, state and answers. Knows no engine: bytes in, bytes out."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.archive import write_tree
from atoll.data.parties import load_party
from atoll.data.party_read import party_preprocessing
from atoll.deploy.admission import Admission
from atoll.deploy.durable import Durable
from atoll.deploy.envelope import Label
from atoll.deploy.evidence.messages import UNRECORDED
from atoll.deploy.evidence.sealing import SiteRecord, site_key
from atoll.deploy.identity import Identity
from atoll.deploy.matching import Limits, Matcher
from atoll.deploy.plan import is_run_name
from atoll.deploy.policy.default import BUILT_IN
from atoll.deploy.policy.forms import size_of
from atoll.deploy.policy.judging import (
    Party,
    Refused,
    cheap_lines,
    judged,
    refuse_failing,
    refuse_stranger,
    steps_of,
)
from atoll.deploy.policy.promised import promise, refuse_other_terms
from atoll.deploy.policy.protections import protections_of
from atoll.deploy.policy.rules import Policy
from atoll.deploy.policy.watch import Sent
from atoll.deploy.positive import words_on_classes
from atoll.deploy.refusal import keep_refusal
from atoll.deploy.site_run import NotBegun, RunAtSite
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, resolve
from atoll.federation.codec import (
    Answer,
    BadMessage,
    Request,
    best_round,
    decode_request,
)
from atoll.graph import Graph
from atoll.plugins import admitting
from atoll.tree import kind

log = logging.getLogger("atoll")


class Busy(RuntimeError):
    """The site is still at work on an earlier request."""


class Site:
    """One party's side of every run: answers requests about its folder of data.

    ``state`` is a folder of its own, kept over restarts. ``slow`` delays every step by so many
    seconds, for drills. ``admits`` are the plug-ins that a run may use here, besides those of the
    ``policy``, which says what this site takes part in and what may leave it. ``identity`` is who
    it is to its peers, which it matches anchors with within ``limits``, and whom it hears.
    """

    def __init__(
        self,
        data: Path,
        state: Path,
        slow: float = 0.0,
        admits: Sequence[str] = (),
        identity: Identity | None = None,
        limits: Limits | None = None,
        policy: Policy = BUILT_IN,
    ) -> None:
        self.admission = Admission((*admits, *policy.code.admit))
        self.identity = identity
        self.limits = limits or Limits()
        self.policy = policy
        self.data = data
        self.state = state
        self.slow = slow
        self._graph: Graph | None = None
        self._run: RunAtSite | None = None
        self._working = threading.Lock()
        self._records: SiteRecord | None = None
        self._recording = threading.Lock()

    def handle(self, message: bytes, label: Label | None = None) -> bytes:
        """Answer a request. What goes wrong is logged here; the coordinator gets a class name.

        ``label`` is what the envelope that it came in said of it, which it must agree with.
        """
        request: Request | None = None
        record: SiteRecord | None = None
        try:
            request = decode_request(message)
            if label is not None:
                _refuse_another(request, label)
            record = self._record(request)
            seal = self._heard(record, request, message)
            with admitting(self.admission.addresses):
                answer = self._answer(request)
            answer = replace(answer, facts={**answer.facts, **seal})
        except Refused as problem:
            log.error("%s", problem)  # a sentence for this site's operator; nobody else gets it
            keep_refusal(self.state, problem)
            answer = Answer(request.id if request else "", error=Refused.__name__)
        except Exception as problem:
            about = "a message" if request is None else f"'{request.ask}' of run {request.run}"
            log.error("%s failed: %s", about, problem, exc_info=problem)
            if isinstance(problem, AtollError) and not isinstance(problem, BadMessage):
                keep_refusal(self.state, problem)
            answer = Answer(request.id if request else "", error=type(problem).__name__)
        content = answer.encode()
        if record is not None and request is not None:
            record.sending(request, answer, content)
        return content

    def _record(self, request: Request) -> SiteRecord | None:
        """The record of a run's messages at this site."""
        if request.ask == UNRECORDED or not is_run_name(request.run):
            return None
        with self._recording:
            if self._records is None or self._records.run != request.run:
                key = self.identity.signing if self.identity else site_key(self.state)
                self._records = SiteRecord(self._durable(request.run).folder, request.run, key)
            return self._records

    def _heard(self, record: SiteRecord | None, request: Request, message: bytes) -> dict[str, Any]:
        """Put a request on record, and countersign what the coordinator has on its own."""
        if record is None:
            return {}
        record.received(request, message)
        return record.countersign(request, self.identity.coordinator if self.identity else b"")

    def _answer(self, request: Request) -> Answer:
        if request.ask == "ping":
            return Answer(request.id, facts={"busy": self._working.locked()})
        answers: dict[str, Callable[[Request], Answer]] = {
            "hello": self._hello,
            "propose": self._propose,
            "begin": self._begin,
            "match": self._match,
            "step": self._step,
            "finish": self._finish,
        }
        if request.ask not in answers:
            raise BadMessage(f"there is no '{request.ask}'")
        refuse_stranger(self.policy, self.identity.coordinator if self.identity else b"")
        if not self._working.acquire(blocking=False):
            raise Busy(request.ask)
        try:
            return answers[request.ask](request)
        finally:
            self._working.release()

    def _hello(self, request: Request) -> Answer:
        """What the coordinator must know to set a run up: sizes, and that we mean the same."""
        graph = self.graph()
        names = repr((graph.class_names, graph.feature_names)).encode()
        facts = {
            "features": graph.features,
            "classes": graph.classes,
            "names": hashlib.sha256(names).hexdigest(),
            "nodes": graph.nodes,
            "train": int(graph.train.sum()),
        } | words_on_classes(graph)
        return Answer(request.id, facts=facts)

    def _propose(self, request: Request) -> Answer:
        """Hear what a run is before anything is done for it; a policy may refuse it here."""
        facts = dict(request.facts)
        experiment = self._admitted(facts)
        facts["needs_anchors"] = experiment.method.needs_anchors
        self._durable(request.run).keep_facts("proposed", facts)
        return Answer(request.id)

    def _admitted(self, facts: Mapping[str, Any]) -> Experiment:
        """The run that facts describe, if this site takes part in it."""
        own = self.admission.localized(facts["experiment"])  # before anything of it is looked up
        experiment = resolve(own)
        refuse_failing(self.policy, cheap_lines(self.policy, experiment))
        graph = self.graph()
        steps = steps_of(experiment, graph)
        party = Party(graph.nodes, int(graph.train.sum()))
        refuse_failing(self.policy, judged(self.policy, experiment, steps, graph.features, party))
        return experiment

    def _begin(self, request: Request) -> Answer:
        self._propose(request)
        durable = self._durable(request.run)
        before, facts = durable.facts("begin"), dict(request.facts)
        refuse_other_terms(self.policy, request.run, before, facts)
        self._promise(facts, durable, begun=before is not None)
        durable.keep_facts("begin", facts)
        # For its own people, who will want to use the models: where the data lies, how it was read.
        about = {
            "data": str(self.data.resolve()),
            "nodes": self.graph().nodes,
            "admits": list(self.admission.addresses),
        }
        durable.keep_facts("site", about)
        if (fitted := party_preprocessing(self.data)) is not None:
            durable.keep_facts("preprocessing", fitted)
        self._run = self._opened(facts, durable)
        return Answer(request.id, facts={"labelled": self._run.labelled})

    def _promise(self, facts: Mapping[str, Any], durable: Durable, begun: bool) -> None:
        own = self.admission.localized(facts["experiment"])
        has = protections_of(resolve(own))
        promise(self.state, self.policy, durable.folder.name, has, begun)

    def _opened(self, facts: dict[str, Any], durable: Durable) -> RunAtSite:
        known = facts | {"experiment": self.admission.localized(facts["experiment"])}
        return RunAtSite(self.graph(), known, durable, self.policy, self.identity)

    def _match(self, request: Request) -> Answer:
        """A turn of the private matching of anchors."""
        durable = self._durable(request.run)
        if not (durable.facts("proposed") or {}).get("needs_anchors"):
            raise Refused(
                f"refused under {self.policy.name}: anchors are to be matched for run "
                f"{request.run}, which has no use for them."
            )
        if self.identity is None:
            raise NotBegun("this site has no keys, so it has no peers")
        session = (request.run, request.attempt)
        matcher = Matcher(self.graph().ids, durable.folder, self.identity, session, self.limits)
        turn = str(request.facts["turn"])
        peers = [str(peer) for peer in request.facts["peers"]]
        tree = matcher.turn(turn, request.tree, peers)
        Sent(self.state).add(size_of(tree), self.policy.leaving.bytes_in_all, self.policy.name)
        return Answer(request.id, tree)

    def _step(self, request: Request) -> Answer:
        if self.slow:
            time.sleep(self.slow)
        return self._of_run(request.run).step(request)

    def _finish(self, request: Request) -> Answer:
        """Leave the party its own models, of the best round and of the last, which nobody else
        has."""
        run = self._of_run(request.run)
        model = {name: leaf for name, leaf in run.host.state.items() if kind(name) == "model"}
        if model:
            write_tree(run.durable.folder / "model.safetensors", model, {})
        run.scored.finish(best_round(request.facts))
        return Answer(request.id)

    def graph(self) -> Graph:
        if self._graph is None:
            self._graph = load_party(self.data)
        return self._graph

    def _durable(self, run: str) -> Durable:
        if not is_run_name(run):
            raise BadMessage("a bad name of a run")
        return Durable(self.state / run)

    def _of_run(self, name: str) -> RunAtSite:
        durable = self._durable(name)
        if self._run is None or self._run.durable.folder != durable.folder:
            facts = durable.facts("begin")
            if facts is None:
                raise NotBegun(name)
            # This site was started again, perhaps under another policy.
            self._admitted(facts)
            self._promise(facts, durable, begun=True)
            self._run = self._opened(facts, durable)
        return self._run


def _refuse_another(request: Request, label: Label) -> None:
    """Attempts and repetitions are looked at in the envelope alone, so its content must be what
    the envelope says that it is; what is in no run is a ping."""
    said = (label.run, label.attempt, label.id)
    if (request.run, request.attempt, request.id) != said:
        raise BadMessage("a request that is not the one on its envelope")
    if not label.run and request.ask != UNRECORDED:
        raise BadMessage(f"'{request.ask}' in no run")
