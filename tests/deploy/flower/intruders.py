"""SuperNodes that Flower must not admit, each with one thing wrong."""

import json
import os
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from atoll.deploy.processes import Process, tool

ORDERS = ("start-run", "list-runs", "register-node", "list-nodes", "stop-run")
OTHERS = ("/v1/runtime/acquire-task", "/docs", "/openapi.json", "/v1/fleet/../control/list-runs")


def admitted(stage) -> set[str]:
    """The numbers of all SuperNodes that the SuperLink counts as online."""
    return {one["node-id"] for one in stage.operator.supernodes() if one["status"] == "online"}


def intruders(stage, root: Path) -> dict[str, Process]:
    from atoll.deploy.flower.certificates import make_authority, make_site_key

    known = stage.kits / f"site-{next(iter(stage.sites))}"
    data = next(iter(stage.sites.values()))
    unregistered, wrong = root / "unregistered", root / "wrong"
    for kit in (unregistered, wrong):
        # Not the socket of the site that runs from it.
        shutil.copytree(known, kit, ignore=shutil.ignore_patterns("site"))
        make_site_key(kit / "site.key", kit / "site.pub")
    make_authority(wrong)  # does not know the server's certificate
    return {
        what: stage.engine.start_site(
            kit, what, data, root / f"state-{kit.name}", root / f"{kit.name}.log"
        )
        for what, kit in {"unregistered key": unregistered, "wrong authority": wrong}.items()
    }


def ordered(stage, root: Path) -> dict:
    """What somebody with a site's kit is answered, at the port that sites dial and at the inner."""
    kit = stage.kits / f"site-{next(iter(stage.sites))}"
    control = json.loads((stage.kits / "server" / "control.json").read_text())["port"]
    ca = (kit / "ca.pem").read_text()
    paths = [*(f"/v1/control/{order}" for order in ORDERS), *OTHERS]
    return {
        "by its own command": _flwr(root, kit, stage.port),
        "outer": {path: answered(stage.port, path, ca) for path in paths},
        "fleet": answered(stage.port, "/v1/fleet/pull-messages", ca),
        "inner, own user": answered(control, "/v1/control/list-runs", ca),
        "inner, another user": as_nobody(control, "/v1/control/list-runs", ca),
    }


def _flwr(root: Path, kit: Path, port: int) -> int:
    """The exit code of Flower's own command with a site's CA file."""
    home = root / "flwr-home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "x"\n[superlink.x]\naddress = "127.0.0.1:{port}"\n'
        f'root-certificates = "{kit / "ca.pem"}"\n'
    )
    env = os.environ | {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    command = [tool("flwr"), "ls", "x", "--format", "json"]
    done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
    said = done.stdout.decode(errors="ignore")
    return done.returncode or int('"success": false' in said.lower())


def answered(port: int, path: str, ca: str) -> int:
    """The status of a plain request over TLS."""
    context = ssl.create_default_context(cadata=ca)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as link,
    ):
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n"
        head += "Content-Type: application/protobuf\r\nAccept: application/protobuf\r\n\r\n"
        link.sendall(head.encode())
        return int(link.recv(100).split()[1])


def as_nobody(port: int, path: str, ca: str) -> int | None:
    """The same asked by another user, which only root can try."""
    if os.getuid() != 0:
        return None
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, str(answered(port, path, ca)).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return int(said.read() or 0)
