"""Nodes that must not be admitted, each with one thing wrong."""

import shutil
import socket
from pathlib import Path

from atoll.deploy.processes import Process, free_port


def flare_intruders(stage, root: Path) -> dict[str, Process]:
    from atoll.deploy import nvflare_engine
    from atoll.deploy.nvflare_kits import make_kits

    port = stage.engine._port()
    make_kits(root / "stranger", "localhost", port, ["stranger"])
    known = next(iter(stage.sites))
    renamed = root / "renamed"
    shutil.copytree(stage.engine.kits / f"site-{known}", renamed)
    plain = root / "plain"
    shutil.copytree(stage.engine.kits / f"site-{known}", plain)
    config = plain / "startup" / "fed_client.json"
    config.write_text(config.read_text().replace('"mtls"', '"clear"'))
    data, state = next(iter(stage.sites.values())), root / "state"
    kits = {
        "wrong authority": (root / "stranger" / "site-stranger", "stranger"),
        "wrong name": (renamed, "somebody-else"),
        "plaintext": (plain, "plaintext-node"),
    }
    return {
        what: nvflare_engine.start_client(kit, name, data, state, root / f"{name}.log")
        for what, (kit, name) in kits.items()
    }


def flower_intruders(stage, root: Path) -> dict[str, Process]:
    from atoll.deploy import flower_engine
    from atoll.deploy.certificates import make_authority, make_node_key

    known = stage.engine.kits / f"site-{next(iter(stage.sites))}"
    data, state = next(iter(stage.sites.values())), root / "state"
    unregistered, wrong = root / "unregistered", root / "wrong"
    for kit in (unregistered, wrong):
        # Not the socket of the site that runs from it.
        shutil.copytree(known, kit, ignore=shutil.ignore_patterns("site"))
        make_node_key(kit / "node.key", kit / "node.pub")
    make_authority(wrong)  # does not know the server's certificate
    return {
        what: flower_engine.start_client(
            kit, what, data, state, root / f"{kit.name}.log", free_port()
        )
        for what, kit in {"unregistered key": unregistered, "wrong authority": wrong}.items()
    }


def plaintext_is_answered(port: int) -> bool:
    """Whether a server says anything of use to somebody who does not speak TLS."""
    for greeting in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
            link.sendall(greeting)
            link.settimeout(5)
            try:
                said = link.recv(100)
            except (TimeoutError, ConnectionError):
                said = b""
        if said.startswith((b"HTTP/", b"\x00\x00")):
            return True
    return False
