"""Atoll's ServerApp: the coordinator of a run.

SuperNodes are known by the numbers that the SuperLink gave the keys which the operator registered.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from atoll.deploy.fleet import EngineFailed, Fleet
from atoll.deploy.flower.payload import content, record
from atoll.deploy.settings import RUNS, voice_from_environment

server = ServerApp()
_BETWEEN_LOOKS = 0.2


class FlowerFleet(Fleet):
    """The SuperNodes of the sites."""

    def __init__(self, grid: Grid, supernodes: Mapping[str, int]) -> None:
        self.grid = grid
        self.supernodes = supernodes

    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        with _flower():
            return self._exchange(messages, seconds)

    def present(self, sites: Collection[str]) -> set[str]:
        with _flower():
            return set(sites) & set(self._online())

    def _exchange(self, messages: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        until = time.monotonic() + seconds
        online = self._online()
        reached = [site for site in messages if site in online]
        # Flower delivers nothing that is older than its time to live: so late work is not begun.
        sent = [
            Message(record(messages[site]), online[site], "query", ttl=seconds) for site in reached
        ]
        waiting = dict(zip(self.grid.push_messages(sent), reached, strict=True))
        replies: dict[str, bytes] = {}
        while waiting and time.monotonic() < until:
            for reply in self.grid.pull_messages(list(waiting)):
                site = waiting.pop(reply.metadata.reply_to_message_id, None)
                if site is not None and not reply.has_error():
                    replies[site] = content(reply)
            if waiting:
                time.sleep(_BETWEEN_LOOKS)
        return replies

    def _online(self) -> dict[str, int]:
        """The sites within reach, with the numbers of their SuperNodes."""
        there = set(self.grid.get_node_ids())
        return {site: number for site, number in self.supernodes.items() if number in there}


@contextmanager
def _flower() -> Iterator[None]:
    """A SuperLink on a busy machine may not answer its own app in time."""
    try:
        yield
    except httpx.HTTPError as problem:
        raise EngineFailed(f"the SuperLink fails its app ({type(problem).__name__})") from problem


@server.main()
def main(grid: Grid, context: Context) -> None:
    from atoll.deploy.coordinator import Coordinator
    from atoll.deploy.plan import open_run

    plan, run_dir = open_run(
        Path(os.environ.get(RUNS, "runs")),
        json.loads(str(context.run_config["plan"])),
        json.loads(str(context.run_config["experiment"])),
    )
    supernodes = json.loads(str(context.run_config["supernodes"]))
    fleet = FlowerFleet(grid, {site: int(number) for site, number in supernodes.items()})
    Coordinator(plan, run_dir, fleet, voice_from_environment()).run()
