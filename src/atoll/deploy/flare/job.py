"""Atoll inside an NVIDIA FLARE job: a controller at the server, an executor at each site.

The only classes of ours that FLARE ever instantiates; the sites' kits allow no others, and no code
travels with a job. Messages go over FLARE's auxiliary channel, as bytes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from atoll.deploy.fleet import Fleet
from atoll.deploy.settings import RUNS, site_from_environment, voice_from_environment
from atoll.errors import AtollError

log = logging.getLogger("atoll")
_TOPIC, _MESSAGE = "atoll", "message"
_PING_SECONDS = 5.0
_SITES_AT_ONCE = 200


class FlareFleet(Fleet):
    """The sites of one job."""

    def __init__(self, context: FLContext) -> None:
        self.context = context
        self.engine = context.get_engine()
        self._pool = ThreadPoolExecutor(max_workers=_SITES_AT_ONCE)

    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        in_job = self.within_reach(messages)
        # One request per site: FLARE 2.9's own multicast fails (it passes on an unknown argument).
        tasks = {
            site: self._pool.submit(self._send, site, message, seconds)
            for site, message in messages.items()
            if site in in_job
        }
        wait(tasks.values(), timeout=seconds + 1.0)
        replies = {site: task.result() for site, task in tasks.items() if task.done()}
        return {site: reply for site, reply in replies.items() if reply is not None}

    def _send(self, site: str, message: bytes, seconds: float) -> bytes | None:
        with self.engine.new_context() as context:
            replies = self.engine.send_aux_request(
                targets=[site],
                topic=_TOPIC,
                request=Shareable({_MESSAGE: message}),
                timeout=seconds,
                fl_ctx=context,
                optional=True,
            )
        reply = replies.get(site)
        if reply is None or reply.get_return_code() != ReturnCode.OK:
            return None
        content = reply.get(_MESSAGE)
        return bytes(content) if isinstance(content, bytes | bytearray | memoryview) else None

    def within_reach(self, sites: Collection[str]) -> set[str]:
        return set(sites) & {client.name for client in self.engine.get_clients()}

    def present(self, sites: Collection[str]) -> set[str]:
        return self.pinged(sites, _PING_SECONDS)


class AtollController(Controller):  # type: ignore[misc]
    """Runs the coordinator of the run that the job names."""

    def __init__(self, plan: dict[str, Any], experiment: dict[str, Any]) -> None:
        super().__init__()
        self.plan = plan
        self.experiment = experiment

    def start_controller(self, fl_ctx: FLContext) -> None:
        pass

    def stop_controller(self, fl_ctx: FLContext) -> None:
        pass

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        from atoll.deploy.coordinator import Coordinator
        from atoll.deploy.plan import open_run

        try:
            runs = Path(os.environ.get(RUNS, "runs"))
            plan, run_dir = open_run(runs, self.plan, self.experiment)
            fleet = FlareFleet(fl_ctx)
            voice = voice_from_environment()
            Coordinator(plan, run_dir, fleet, voice, lambda: bool(abort_signal.triggered)).run()
        except AtollError as problem:
            self.system_panic(str(problem), fl_ctx)

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        pass


class AtollExecutor(Executor):  # type: ignore[misc]
    """Hands messages to the site."""

    def __init__(self) -> None:
        super().__init__()
        self.register_event_handler(EventType.START_RUN, self._start)

    def _start(self, event_type: str, fl_ctx: FLContext) -> None:
        site = site_from_environment()

        def answer(request: Shareable, **_: Any) -> Shareable:
            reply = make_reply(ReturnCode.OK)
            reply[_MESSAGE] = site.handle(request.get(_MESSAGE, b""))
            return reply

        fl_ctx.get_engine().register_aux_message_handler(_TOPIC, answer)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        return make_reply(ReturnCode.TASK_UNKNOWN)
