"""Requests between two processes of one machine and one user, over a socket in a private folder."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

_LARGEST = 2**31
_HEADER = 8


def request(path: str, message: bytes) -> bytes:
    """Send a message and wait for the answer; whoever asked for it has a deadline of its own."""
    folder, name = os.path.split(path)
    with socket.socket(socket.AF_UNIX) as link:
        with contextlib.chdir(folder):  # a socket's path may have some hundred characters only
            link.connect(name)
        _send(link, message)
        return _receive(link)


def serve(path: Path, answer: Callable[[bytes], bytes]) -> None:
    """Answer requests from now on, in threads of their own."""
    path.unlink(missing_ok=True)  # of one who was killed
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.chdir(path.parent):
        listener.bind(path.name)
    path.chmod(0o600)
    listener.listen()

    def one(link: socket.socket) -> None:
        with link:
            _send(link, answer(_receive(link)))

    def loop() -> None:
        while True:
            link, _ = listener.accept()
            threading.Thread(target=one, args=(link,), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()


def _send(link: socket.socket, message: bytes) -> None:
    link.sendall(len(message).to_bytes(_HEADER, "big"))
    link.sendall(message)


def _receive(link: socket.socket) -> bytes:
    size = int.from_bytes(_exactly(link, _HEADER), "big")
    if size > _LARGEST:
        raise ConnectionError(f"a message of {size} bytes")
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytes:
    parts, missing = [], size
    while missing:
        part = link.recv(min(missing, 2**20))
        if not part:
            raise ConnectionError("the other side has gone")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
