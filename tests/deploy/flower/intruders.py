"""SuperNodes that Flower must not admit, each with one thing wrong."""

import shutil
from pathlib import Path

from atoll.deploy.processes import Process


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
