"""What each side of an NVIDIA FLARE federation needs: certificates and settings."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll.deploy.flare.certificates import Subject, check_given, make_request, signed
from atoll.errors import AtollError
from atoll.files import PRIVATE, folder_whole, make_folder, write_bytes, write_json

OPERATOR = "operator@atoll.org"
_ORG, _PROJECT = "atoll", "atoll"
_ROLE = "project_admin"
_KEY = Path("startup") / "client.key"
# Certificate and key of each kind of kit, by their common name.
_NAMED = {"server": "server", "operator": "client"}
_LONGEST_NAME = 64  # of a certificate's owner
_SECONDS_WITHOUT_HEARTBEAT = 40
# The only classes of ours that FLARE may make.
CONTROLLER, EXECUTOR = (
    f"atoll.deploy.flare.job.{name}" for name in ("AtollController", "AtollExecutor")
)
# An operator may start, stop and watch runs. Nobody may look into a site's files or send code.
_MAY = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": {
            "submit_job": "any",
            "clone_job": "none",
            "manage_job": "any",
            "download_job": "none",
            "view": "any",
            "operate": "none",
            "shell_commands": "none",
            "byoc": "none",
            "server-predeployed-flwr": "none",
        }
    },
}


def make_kits(out: Path, server: str, port: int, sites: Sequence[str]) -> None:
    """See :meth:`atoll.deploy.engine.Engine.make_kits`; FLARE's own tool makes them."""
    workspace = out / "authority"
    make_folder(out)
    workspace.mkdir(mode=0o700, exist_ok=True)
    made = _provision(workspace, server, port, sites)
    for kit, folder in (
        (server, "server"),
        (OPERATOR, "operator"),
        *((site, f"site-{site}") for site in sites),
    ):
        target = out / folder
        if target.exists():
            continue
        with folder_whole(target) as part:
            shutil.copytree(made / kit, part, dirs_exist_ok=True)
            _own_rules(part, folder)
            for path in [part, *part.rglob("*")]:
                path.chmod(0o700 if path.is_dir() or path.suffix == ".sh" else PRIVATE)
    _keep_no_keys(workspace)


def request(kit: Path, site: str) -> str:
    """See :meth:`atoll.deploy.engine.Engine.request`."""
    return make_request(kit / _KEY, site)


def sign(out: Path, site: str, asked: str) -> dict[str, str]:
    """See :meth:`atoll.deploy.engine.Engine.sign`."""
    return signed(_state(out), site, Subject(site, _ORG), asked)


def request_side(kit: Path, side: str, server: str) -> str:
    """See :meth:`atoll.deploy.engine.Engine.request_side`."""
    _refuse_long(server)
    return make_request(kit / "startup" / f"{_NAMED[side]}.key", side)


def sign_side(out: Path, side: str, server: str, asked: str) -> dict[str, str]:
    """See :meth:`atoll.deploy.engine.Engine.sign_side`."""
    _refuse_long(server)
    if side == "server":
        return signed(_state(out), side, Subject(server, _ORG), asked, server)
    return signed(_state(out), side, Subject(OPERATOR, _ORG, _ROLE), asked)


def _refuse_long(server: str) -> None:
    if len(server) > _LONGEST_NAME:
        raise AtollError(f"'{server}' is too long a name for a certificate; at most 64 letters.")


def _state(out: Path) -> Path:
    return out / "authority" / _PROJECT / "state" / "cert.json"


def install(kit: Path, site: str, server: str, port: int, given: Mapping[str, str]) -> None:
    """See :meth:`atoll.deploy.engine.Engine.install`."""
    _complete(kit, f"site-{site}", "client", site, (server, port, [site]), given)


def install_side(kit: Path, side: str, server: str, port: int, given: Mapping[str, str]) -> None:
    """See :meth:`atoll.deploy.engine.Engine.install_side`."""
    owner = {"server": server, "operator": OPERATOR}[side]
    _complete(kit, side, _NAMED[side], owner, (server, port, []), given)


def _complete(
    kit: Path,
    folder: str,
    named: str,
    owner: str,
    federation: tuple[str, int, Sequence[str]],
    given: Mapping[str, str],
) -> None:
    """All of a kit but its secret key, which is there.

    Settings and scripts are made here, by FLARE's own tool, under an authority that is thrown away
    at once: so they are this kit's own, and the true authority's answer has certificates alone.
    """
    try:
        certificate, root = given["certificate"].encode(), given["root"].encode()
    except KeyError:
        raise AtollError("the answer has no certificates; get it anew.") from None
    check_given(kit / "startup" / f"{named}.key", certificate, root, owner)
    with tempfile.TemporaryDirectory(dir=kit) as workspace:
        made = _provision(Path(workspace), *federation) / owner
        own = {f"{named}.crt": certificate, "rootCA.pem": root, f"{named}.key": None}
        for path in sorted(made.rglob("*")):
            if path.is_file() and path.name not in own:
                write_bytes(kit / path.relative_to(made), path.read_bytes(), _mode(path))
    for name, content in own.items():
        if content is not None:
            write_bytes(kit / "startup" / name, content, PRIVATE)
    _own_rules(kit, folder)


def _mode(path: Path) -> int:
    return 0o700 if path.suffix == ".sh" else PRIVATE


def _keep_no_keys(workspace: Path) -> None:
    """Of all that FLARE's tool has made, only the authority's own key stays with the authority."""
    project = workspace / _PROJECT
    state = project / "state" / "cert.json"
    known = json.loads(state.read_text())
    root = {name: value for name, value in known.items() if not isinstance(value, dict)}
    write_json(state, root, PRIVATE)
    for made in project.iterdir():
        if made.name.startswith("prod_") or made.name in ("wip", "resources"):
            shutil.rmtree(made)


def _provision(workspace: Path, server: str, port: int, sites: Sequence[str]) -> Path:
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    builders = "nvflare.lighter.impl"
    project: dict[str, Any] = {
        "api_version": 3,
        "name": _PROJECT,
        "description": "Atoll",
        "gen_scripts": True,
        "participants": [
            {
                "name": server,
                "type": "server",
                "org": _ORG,
                "fed_learn_port": port,
                "admin_port": port,
            },
            *({"name": site, "type": "client", "org": _ORG} for site in sites),
            {"name": OPERATOR, "type": "admin", "org": _ORG, "role": _ROLE},
        ],
        "builders": [
            {
                "path": f"{builders}.workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {
                "path": f"{builders}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "grpc"},
            },
            {"path": f"{builders}.cert.CertBuilder"},
        ],
    }
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        context = Provisioner(str(workspace), prepare_builders(project)).provision(
            prepare_project(project)
        )
    made = Path(context.get_result_location())
    if not (made / server).is_dir():
        raise AtollError(f"the kits could not be made: {said.getvalue().strip()[-300:]}")
    return made


def _own_rules(kit: Path, folder: str) -> None:
    """Narrow what FLARE's defaults allow: our two classes, no code, no logs sent, no shell."""
    local = kit / "local"
    if folder == "operator":
        return
    rules = json.loads((local / "resources.json.default").read_text())
    rules["class_allow_list"] = [CONTROLLER, EXECUTOR]
    rules["allow_log_streaming"] = False
    # A site's error log may quote its data: it stays there.
    rules["components"] = [c for c in rules["components"] if "logging" not in c["path"]]
    for server in rules.get("servers", []):
        # A dead site must not be reckoned with for ten minutes.
        server["heart_beat_timeout"] = _SECONDS_WITHOUT_HEARTBEAT
    for component in rules["components"]:
        if component["id"] == "job_scheduler":
            component["args"] |= {"max_jobs": 4, "min_schedule_interval": 1.0}
            component["args"] |= {"max_schedule_interval": 5.0, "max_schedule_count": 1000}
    write_json(local / "resources.json", rules)
    write_json(local / "authorization.json", _MAY)


def keep_storage_in(kit: Path) -> None:
    """FLARE's default is one folder under /tmp for every server of a machine; ours is the kit."""
    file = kit / "local" / "resources.json"
    rules = json.loads(file.read_text())
    storage = rules["snapshot_persistor"]["args"]["storage"]["args"]
    storage["root_dir"] = str(kit.resolve() / "snapshots")
    for component in rules["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(kit.resolve() / "jobs")
    write_json(file, rules, PRIVATE)
