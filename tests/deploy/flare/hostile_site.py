"""A site that speaks to the others as if it were the coordinator, through NVIDIA FLARE's relay.

Its process loads this as ``sitecustomize``. What the others reply is noted in the file that
``ATOLL_TEST_REPLIES`` names, beside what they reply to the very same words with a good signature.
"""

import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path

_JOB = "atoll.deploy.flare.job"


class _Finder:
    """Changes the module that FLARE loads for a job, once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != _JOB:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def changed(module):
            load(module)
            start = module.AtollExecutor._start

            def hostile(self, event_type, fl_ctx):
                start(self, event_type, fl_ctx)
                engine = fl_ctx.get_engine()
                threading.Thread(target=_attack, args=(engine,), daemon=True).start()

            module.AtollExecutor._start = hostile

        spec.loader.exec_module = changed
        return spec


def _attack(engine):
    from nvflare.apis.shareable import Shareable

    from atoll.federation.codec import Request

    run, victims = json.loads(os.environ["ATOLL_TEST_TARGETS"])
    time.sleep(1.0)
    noted = []
    for victim in victims:
        for request in (
            Request("ping"),
            Request("hello", run, 1),
            Request("match", run, 1, {"turn": "lists", "peers": victims}),
            Request("begin", run, 1, {"experiment": {}, "client": 0}),
            Request("step", run, 10**9, {"step": "train", "round": 1, "nth": 0, "kinds": []}),
        ):
            with engine.new_context() as context:
                replies = engine.send_aux_request(
                    targets=[victim],
                    topic="atoll",
                    request=Shareable({"message": request.encode()}),
                    timeout=10.0,
                    fl_ctx=context,
                )
            reply = replies[victim]
            content = reply.get("message")
            noted.append([victim, request.ask, reply.get_return_code(), (content or b"").hex()])
    Path(os.environ["ATOLL_TEST_REPLIES"]).write_text(json.dumps(noted))


if "ATOLL_TEST_REPLIES" in os.environ:
    sys.meta_path.insert(0, _Finder())
