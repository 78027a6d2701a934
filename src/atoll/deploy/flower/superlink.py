"""Flower's SuperLink with two listeners in the place of its one; see :mod:`~.front`.

    python -m atoll.deploy.flower.superlink HOST PORT ARGUMENTS OF flower-superlink

HOST and PORT are the outer listener's; those among the SuperLink's own arguments the inner one's.
If Flower ever served its application in another way than here, no outer listener would be there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from atoll.deploy.flower.front import can_tell_users, fleet_only, own_user_only


class _Outer(uvicorn.Server):
    """Ends with the inner server, which hears the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def served_twice(host: str, port: int) -> Any:
    """A function in the place of ``uvicorn.run``."""

    def run(app: Any, **options: Any) -> None:
        options.pop("reload", None)
        options.pop("workers", None)
        within = own_user_only(app) if can_tell_users() else app
        inner = uvicorn.Server(uvicorn.Config(within, **options))
        outward = options | {"host": host, "port": port, "lifespan": "off"}
        outer = _Outer(uvicorn.Config(fleet_only(app), **outward))
        asyncio.run(_both(inner, outer))
        if inner.started is False:
            sys.exit(3)

    return run


async def _both(inner: uvicorn.Server, outer: uvicorn.Server) -> None:
    within = asyncio.create_task(inner.serve())
    while not inner.started and not within.done():
        await asyncio.sleep(0.05)
    without = asyncio.create_task(outer.serve())
    await asyncio.wait({within, without}, return_when=asyncio.FIRST_COMPLETED)
    inner.should_exit = outer.should_exit = True
    await asyncio.gather(within, without)


def main(arguments: list[str]) -> None:
    from flwr.superlink.cli import flower_superlink

    host, port, *own = arguments
    uvicorn.run = served_twice(host, int(port))
    sys.argv = ["flower-superlink", *own]
    flower_superlink()


if __name__ == "__main__":
    main(sys.argv[1:])
