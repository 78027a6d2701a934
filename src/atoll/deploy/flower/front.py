"""Who may ask Flower's server for what, since Flower itself asks nobody who they are.

A SuperLink serves three interfaces on one port: the fleet's, for SuperNodes, who sign; the
control's, which starts runs with code of their own; and the runtime's, for its own processes. Here
the same application gets two listeners instead:

- the outer one, which sites dial, answers the fleet's requests and no others;
- the inner one, on loopback, answers processes of the server's own user and nobody else's.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# What a SuperNode asks for. Registering is refused by the SuperLink itself where keys are required.
_FLEET = frozenset(
    f"/v1/fleet/{name}"
    for name in (
        "register-node",
        "activate-node",
        "deactivate-node",
        "unregister-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "get-run",
        "get-fab",
        "push-object",
        "pull-object",
        "confirm-message-received",
    )
)
_CONNECTIONS = Path("/proc/net/tcp")


def fleet_only(app: App) -> App:
    """An application of which strangers see the fleet's requests only, by their exact names."""

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        asked = (scope["type"], scope.get("method"))
        if asked == ("http", "POST") and scope["path"] in _FLEET and not scope.get("root_path"):
            await app(scope, receive, send)
        else:
            await _refuse(scope, send, 404)

    return front


def own_user_only(app: App) -> App:
    """An application on loopback that answers processes of this one's own user."""

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _is_own(scope):
            await app(scope, receive, send)
        else:
            await _refuse(scope, send, 403)

    return front


def can_tell_users() -> bool:
    """Whether this system says whose a connection is."""
    return _CONNECTIONS.is_file()


def _is_own(scope: Scope) -> bool:
    client, server = scope.get("client"), scope.get("server")
    if client is None or server is None:
        return False
    return owner((client[0], client[1]), (server[0], server[1])) == os.getuid()


def owner(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user who holds the client's end of a connection on this machine, if there is one."""
    ends = [_hex(*client), _hex(*server)]
    for line in _CONNECTIONS.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == ends:
            return int(fields[7])
    return None


def _hex(host: str, port: int) -> str:
    """An address as the kernel writes it: the bytes of a word in the machine's own order."""
    word = int.from_bytes(bytes(map(int, host.split("."))), "little")
    return f"{word:08X}:{port:04X}"


async def _refuse(scope: Scope, send: Send, status: int) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close"})
