"""Who is answered by Flower's server, and what a site runs of what Flower brings it."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys

import pytest

from atoll.deploy.flower import front
from atoll.deploy.flower.front import fleet_only, own_user_only, owner
from atoll.deploy.flower.programs import put_in_place


def asked(app, **scope):
    """The status that an application answers a request with."""
    said = []

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        said.append(message)

    whole = {"type": "http", "method": "POST", "path": "/", "root_path": ""} | scope
    asyncio.run(app(answer)(whole, None, send))
    return next(message.get("status", message["type"]) for message in said)


def test_strangers_are_answered_in_the_fleet_s_own_requests_only():
    assert asked(fleet_only, path="/v1/fleet/pull-messages") == 200
    for path in (
        "/v1/control/start-run",
        "/v1/runtime/acquire-task",
        "/v1/fleet/../control/start-run",
        "/v1/fleet//pull-messages",
        "/v1/fleet/pull-messages/",
        "/V1/FLEET/PULL-MESSAGES",
        "/v1/fleet/anything-new",
        "/docs",
        "/",
    ):
        assert asked(fleet_only, path=path) == 404, path
    assert asked(fleet_only, path="/v1/fleet/pull-messages", method="GET") == 404
    assert asked(fleet_only, path="/v1/fleet/pull-messages", root_path="/v1/control") == 404
    assert asked(fleet_only, path="/v1/fleet/pull-messages", type="websocket") == "websocket.close"


def test_every_request_that_this_flower_s_supernodes_make_is_known():
    router = pytest.importorskip("flwr.superlink.routers.fleet.router").router
    assert {route.path for route in router.routes} == set(front._FLEET)


@pytest.mark.skipif(not front.can_tell_users(), reason="this system does not say")
def test_a_connection_is_its_users(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            ends = client.getsockname(), server.getsockname()
            assert owner(*ends) == os.getuid()
            assert asked(own_user_only, client=ends[0], server=ends[1]) == 200
            monkeypatch.setattr(os, "getuid", lambda: 12345)
            assert asked(own_user_only, client=ends[0], server=ends[1]) == 403
        assert owner(("127.0.0.1", 1), ends[1]) is None
    assert asked(own_user_only, client=("127.0.0.1", 1), server=("127.0.0.1", 2)) == 403
    assert asked(own_user_only, client=None, server=None) == 403


def test_a_site_finds_its_own_programs_before_flower_s(tmp_path):
    constant = pytest.importorskip("flwr.supercore.constant")
    folder = put_in_place(tmp_path / "programs")
    path = f"{folder}{os.pathsep}{os.path.dirname(sys.executable)}"
    for name in constant.TASK_TYPE_TO_COMMAND.values():
        assert shutil.which(name, path=path) == str(folder / name), name
        if name != "flwr-clientapp":
            done = subprocess.run([folder / name], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (1, "a site runs no such program\n")


_AS_AT_A_SITE = """
import flwr.supernode.cli as cli
from flwr.supernode.runtime import run_clientapp as runtime

def app():
    from atoll.deploy.flower.client_app import client
    runtime.install_from_fab(b"an app of the server's", skip_prompt=True)
    assert runtime.install_app_dependencies("anywhere") is None
    load = runtime.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    assert load("evil/app", "1.0.0", "00") is client
    print("only Atoll's app")

cli.flwr_clientapp = app
from atoll.deploy.flower.own_app import main
main()
"""


def test_an_app_that_comes_with_a_run_is_neither_installed_nor_run():
    """The functions of Flower's that would do it, exchanged as at a site."""
    pytest.importorskip("flwr")
    command = [sys.executable, "-W", "ignore", "-c", _AS_AT_A_SITE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "only Atoll's app\n", done.stderr
