"""Real engines on loopback, secured: the numbers of a simulation, to 1e-6."""

import importlib.util
import os
import socket
import time

import pytest

import flare.intruders as flare_intruders
import flower.intruders as flower_intruders
from atoll.data.parties import write_parties
from atoll.deploy.engines import engines
from atoll.deploy.enrolment import install_answer, make_request, sign_request
from atoll.deploy.kits import make_kits
from atoll.deploy.local import federation
from atoll.deploy.marks import marked
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.processes import free_port
from atoll.deploy.up import site_names
from atoll.experiment.run_dir import store_setup
from atoll.experiment.runner import run_experiment
from result_comparison import assert_same_result
from small_federations import community_parties
from thread_fleet import experiment

TERMS = Terms(deadline=120.0, patience=120.0)
SECONDS = 400.0
INTRUDERS = {"nvflare": flare_intruders, "flower": flower_intruders}


def test_every_engine_is_tried():
    assert set(INTRUDERS) == set(engines())


# One process for all tests of an engine: they share its federation.
@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in INTRUDERS],
)
def stage(request, tmp_path_factory):
    """One federation per engine, on which several runs are made."""
    package = engines()[request.param].package
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; it comes with the dev extra")
    root = tmp_path_factory.mktemp(request.param)
    folders = write_parties(community_parties((19, 25, 14)), root / "sites")
    sites = site_names(folders)
    enrol_first(root, engines()[request.param], list(sites))
    with federation(root / "federation", request.param, sites) as stage:
        stage.name, stage.root = request.param, root
        yield stage
    assert not marked({process.mark for process in stage.processes.members.values()})


def enrol_first(root, engine, sites):
    """Kits of which the first site has made its own, and the authority the others."""
    kits, address = root / "federation" / "kits", f"{engine.own_machine}:{free_port()}"
    request, _ = make_request(root / "at-the-site", engine, sites[0])
    answer, *_ = sign_request(kits, request, address)
    kit, _ = install_answer(root / "at-the-site", answer)
    kit.rename(kits / kit.name)
    make_kits(kits, engine, address, sites[1:])


def deployed(stage, method, rounds, terms=TERMS, progress=None, privacy=None):
    chosen = experiment(stage.root / "sites", method, rounds, privacy=privacy)
    plan = new_plan(stage.name, tuple(stage.sites), chosen, terms)
    run_dir = stage.root / plan.run
    run_dir.mkdir()
    store_setup(run_dir, chosen, 1)
    plan.store(run_dir)
    until = time.monotonic() + SECONDS
    stage.interrupted = lambda: time.monotonic() > until  # a hang is a failure
    return stage.run(plan, run_dir, progress)


@pytest.mark.parametrize(
    "method",
    [
        "fed-avg",
        pytest.param("fed-pub", marks=pytest.mark.long),
        pytest.param("fed-sage-plus", marks=pytest.mark.long),
    ],
)
def test_a_deployment_gives_the_numbers_of_a_simulation(stage, method):
    if stage.name == "flower" and method != "fed-avg":
        pytest.skip("Flower starts a process for every message; benchmarks/deployed.py runs all")
    rounds = 1 if stage.name == "flower" else 3
    result = deployed(stage, method, rounds)
    simulated = run_experiment(
        experiment(stage.root / "sites", method, rounds), stage.root / f"simulated-{method}"
    )
    assert_same_result(simulated, result, 1e-6)
    assert result.bytes_up == simulated.bytes_up


def test_secure_sums_give_the_same_numbers_and_nothing_is_readable_by_others(stage):
    result = deployed(stage, "fed-avg", 1, privacy={"secure_sum": True})
    simulated = run_experiment(
        experiment(stage.root / "sites", "fed-avg", 1), stage.root / "simulated-plainly"
    )
    assert_same_result(simulated, result, 1e-6)
    found = [path for path in stage.home.rglob("*") if not path.is_symlink()]
    assert {"server.log", "roster.signed", "requests.log", "begin.json"} <= {p.name for p in found}
    assert [p for p in (stage.home, *found) if p.stat().st_mode & 0o077] == []


def test_intruders_are_not_admitted(stage, tmp_path):
    """Another authority, another name, a key nobody registered, no encryption: none gets in."""
    admitted = INTRUDERS[stage.name].admitted
    before = admitted(stage)
    intruders = INTRUDERS[stage.name].intruders(stage, tmp_path)
    try:
        until = time.monotonic() + 25
        while time.monotonic() < until:
            assert admitted(stage) == before
            time.sleep(2)
        for what, process in intruders.items():
            assert process.log.stat().st_size > 0, f"{what} never tried"
    finally:
        for process in intruders.values():
            process.kill()
    assert not plaintext_is_answered(stage.port)


def test_a_site_s_port_takes_no_orders(stage, tmp_path):
    """Who holds a site's kit can't start a run, list any, or enter keys, by Flower's own command or
    without it; nor can another user of the server's machine by its inner port."""
    if stage.name != "flower":
        pytest.skip("NVIDIA FLARE's operators have certificates")
    outcome = flower_intruders.ordered(stage, tmp_path)
    assert outcome["by its own command"] != 0
    assert set(outcome["outer"].values()) == {404}
    assert outcome["fleet"] == 401  # the interface of the sites is there, for keys it knows
    assert outcome["inner, own user"] == 200
    if os.getuid() == 0:
        assert outcome["inner, another user"] == 403


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


@pytest.mark.long
def test_a_killed_site_is_left_out(stage):
    """The last test of an engine's federation, which it leaves without a site."""
    if stage.name == "flower":
        pytest.skip("Flower starts a process for every message; benchmarks/faults.py kills it all")
    victim = stage.processes.members[f"site {next(iter(stage.sites))}"]

    def progress(round, _):
        if round >= 2 and victim.alive:
            victim.kill()

    terms = Terms(deadline=10.0, patience=120.0)
    result = deployed(stage, "fed-avg", 30, terms, progress)
    took_part = dict(result.history.group_by("round").len().iter_rows())
    assert took_part[1] == 3
    assert took_part[30] == 2
