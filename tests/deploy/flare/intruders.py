"""Clients that NVIDIA FLARE must not admit, each with one thing wrong."""

import shutil
from pathlib import Path

from atoll.deploy.processes import Process


def admitted(stage) -> set[str]:
    """Everybody the server counts as connected."""
    return stage.operator.connected()


def intruders(stage, root: Path) -> dict[str, Process]:
    stage.engine.make_kits(root / "stranger", "localhost", stage.port, ["stranger"])
    known = stage.kits / f"site-{next(iter(stage.sites))}"
    renamed = root / "renamed"
    shutil.copytree(known, renamed)
    plain = root / "plain"
    shutil.copytree(known, plain)
    config = plain / "startup" / "fed_client.json"
    config.write_text(config.read_text().replace('"mtls"', '"clear"'))
    data, state = next(iter(stage.sites.values())), root / "state"
    kits = {
        "wrong authority": (root / "stranger" / "site-stranger", "stranger"),
        "wrong name": (renamed, "somebody-else"),
        "plaintext": (plain, "plaintext-site"),
    }
    return {
        what: stage.engine.start_site(kit, name, data, state, root / f"{name}.log")
        for what, (kit, name) in kits.items()
    }
