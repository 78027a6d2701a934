"""The report while runs go on: a small server on this machine alone, which only reads."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from atoll.errors import AtollError
from atoll.report.facts import report_facts
from atoll.report.html_page import page_of

log = logging.getLogger("atoll")
_HOST = "127.0.0.1"


class _Looks:
    """The facts as they were last read; files are read again only if one of them has changed."""

    def __init__(self, folders: Sequence[Path], with_data: bool) -> None:
        self.folders, self.with_data = list(folders), with_data
        self.lock = threading.Lock()
        self.seen: tuple[Any, ...] | None = None
        self.facts: dict[str, Any] = {}
        self.tag = ""
        self.now()  # a folder that can't be read is refused before anything is served

    def now(self) -> tuple[dict[str, Any], str]:
        with self.lock:
            stamps = tuple(self._stamps())
            if stamps != self.seen:
                try:
                    self.facts = report_facts(self.folders, self.with_data)
                except AtollError as problem:
                    if not self.facts:
                        raise
                    # A file was replaced while it was read: the next look finds it whole.
                    log.debug("%s", problem)
                else:
                    self.seen = stamps
                text = json.dumps(self.facts, sort_keys=True).encode()
                self.tag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
            return self.facts, self.tag

    def _stamps(self) -> Iterator[tuple[str, int]]:
        for folder in self.folders:
            for path in sorted(folder.rglob("*")):
                if path.suffix in (".parquet", ".json", ".toml"):
                    try:
                        yield str(path), path.stat().st_mtime_ns
                    except OSError:
                        continue


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, looks: _Looks, seconds: float) -> None:
        super().__init__((_HOST, port), _Handler)
        self.looks, self.seconds = looks, seconds
        self.token = secrets.token_urlsafe(24)

    @property
    def names(self) -> set[str]:
        """What a browser on this machine calls us. Others that lead here are somebody's trick."""
        return {f"{_HOST}:{self.server_port}", f"localhost:{self.server_port}"}

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "atoll", ""

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.names:
            return self._answer(HTTPStatus.FORBIDDEN, b"wrong host\n")
        _, token, *rest = [*self.path.split("/"), ""]
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return self._answer(HTTPStatus.NOT_FOUND, b"not found\n")
        name = "/".join(rest).rstrip("/")
        if name not in ("", "facts.json"):
            return self._answer(HTTPStatus.NOT_FOUND, b"not found\n")
        facts, tag = self.server.looks.now()
        if name == "":
            page = page_of(facts, live=self.server.seconds)
            return self._answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")
        if self.headers.get("If-None-Match") == tag:
            return self._answer(HTTPStatus.NOT_MODIFIED, b"", tag=tag)
        return self._answer(HTTPStatus.OK, json.dumps(facts).encode(), "application/json", tag)

    def _answer(
        self, status: HTTPStatus, body: bytes, kind: str = "text/plain", tag: str = ""
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the address has the token in it."""


@contextmanager
def serve(
    folders: Sequence[Path], port: int = 0, seconds: float = 2.0, with_data: bool = True
) -> Iterator[str]:
    """The address of the page while the block lasts."""
    looks = _Looks(folders, with_data)
    try:
        server = _Server(port, looks, seconds)
    except OSError as problem:
        raise AtollError(
            f"port {port} can't be used ({problem.strerror}); choose another --port, or none."
        ) from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
