"""A site: one party's data, state and answers. Knows no engine: bytes in, bytes out."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atoll.archive import write_tree
from atoll.cohort import Cohort
from atoll.data.parties import load_party
from atoll.deploy.durable import Durable
from atoll.deploy.matching import Matcher
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.federation.codec import (
    Answer,
    BadMessage,
    Request,
    decode_request,
    step_answer,
    step_call,
)
from atoll.federation.host import Host
from atoll.graph import Graph
from atoll.rng import stream
from atoll.tasks.nodes import rarer_class
from atoll.tree import copy, kind

log = logging.getLogger("atoll")
_RUN = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Stale(RuntimeError):
    """A request of an attempt that the coordinator has given up."""


class Busy(RuntimeError):
    """The site is still at work on an earlier request."""


class NotBegun(RuntimeError):
    """A step of a run that this site does not know."""


class Site:
    """One party's side of every run: answers requests about its folder of data.

    ``state`` is a folder of its own, kept over restarts. ``slow`` delays every step by so many
    seconds, for drills.
    """

    def __init__(self, data: Path, state: Path, slow: float = 0.0) -> None:
        self.data = data
        self.state = state
        self.slow = slow
        self._graph: Graph | None = None
        self._run: _RunAtSite | None = None
        self._working = threading.Lock()

    def handle(self, message: bytes) -> bytes:
        """Answer a request. What goes wrong is logged here; the coordinator gets a class name."""
        request: Request | None = None
        try:
            request = decode_request(message)
            return self._answer(request).encode()
        except Exception as problem:
            about = "a message" if request is None else f"'{request.ask}' of run {request.run}"
            log.error("%s failed: %s", about, problem, exc_info=problem)
            return Answer(request.id if request else "", error=type(problem).__name__).encode()

    def _answer(self, request: Request) -> Answer:
        if request.ask == "ping":
            return Answer(request.id, facts={"busy": self._working.locked()})
        answers: dict[str, Callable[[Request], Answer]] = {
            "hello": self._hello,
            "begin": self._begin,
            "match": self._match,
            "step": self._step,
            "finish": self._finish,
        }
        if request.ask not in answers:
            raise BadMessage(f"there is no '{request.ask}'")
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
            # Which of two classes is to be the positive one: a word, no counts.
            "rarer": rarer_class([graph]) if graph.classes == 2 else -1,
        }
        return Answer(request.id, facts=facts)

    def _begin(self, request: Request) -> Answer:
        durable = self._durable(request.run)
        durable.keep_facts("begin", dict(request.facts))
        self._run = _RunAtSite(self.graph(), dict(request.facts), durable)
        return Answer(request.id)

    def _match(self, request: Request) -> Answer:
        """A turn of the private matching of anchors."""
        matcher = Matcher(self.graph().ids, self._durable(request.run).folder)
        turn = str(request.facts["turn"])
        tree, facts = matcher.turn(turn, request.tree, request.facts)
        return Answer(request.id, tree, facts)

    def _step(self, request: Request) -> Answer:
        if self.slow:
            time.sleep(self.slow)
        return self._of_run(request.run).step(request)

    def _finish(self, request: Request) -> Answer:
        """Leave the party its own model, which nobody else has."""
        run = self._of_run(request.run)
        model = {name: leaf for name, leaf in run.host.state.items() if kind(name) == "model"}
        if model:
            write_tree(run.durable.folder / "model.safetensors", model, {})
        return Answer(request.id)

    def graph(self) -> Graph:
        if self._graph is None:
            self._graph = load_party(self.data)
        return self._graph

    def _durable(self, run: str) -> Durable:
        if not _RUN.fullmatch(run) or run.startswith("."):
            raise BadMessage("a bad name of a run")
        return Durable(self.state / run)

    def _of_run(self, name: str) -> _RunAtSite:
        durable = self._durable(name)
        if self._run is None or self._run.durable.folder != durable.folder:
            facts = durable.facts("begin")
            if facts is None:
                raise NotBegun(name)
            self._run = _RunAtSite(self.graph(), facts, durable)
        return self._run


class _RunAtSite:
    """A run as one site sees it: its host, and how far its state has got."""

    def __init__(self, graph: Graph, facts: dict[str, Any], durable: Durable) -> None:
        experiment = resolve(facts["experiment"])
        method, client, seed = experiment.method, int(facts["client"]), experiment.run.seed
        graph = method.task.prepare(graph, stream(seed, client, 0, "task"))
        missing = method.task.missing(graph) if method.needs_labels else ""
        if missing:
            raise AtollError(f"this site has no {missing}; {method.registered_name} needs some.")
        if method.needs_anchors:
            anchors = durable.facts("anchors")
            if anchors is None:
                raise NotBegun("the anchors have not been matched")
            graph = graph.with_anchors(np.array(anchors["rows"], dtype=np.int64))
        torch.set_num_threads(experiment.run.threads or torch.get_num_threads())
        dtype = getattr(torch, experiment.run.dtype)
        self.durable = durable
        self.host = Host(method, Cohort([graph], [client], dtype), seed)
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
        if request.attempt != self.attempt:
            earlier = self.durable.rolled_back(call.round)
            self.host.state = copy(self._fresh) if earlier is None else earlier
        [batch] = self.host.perform(call, self.host.cohort.clients, row)
        self.durable.save(call.round, request.attempt, self.host.state)
        self.attempt, self.round = request.attempt, call.round
        return step_answer(request, batch)
