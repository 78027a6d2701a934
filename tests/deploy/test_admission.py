"""A site runs no code but Atoll's own and what its people have named: attacked in process."""

import logging
from dataclasses import replace

import pytest

from atoll.deploy.plan import open_run
from atoll.deploy.site import Site
from atoll.errors import AtollError
from atoll.experiment.config import describe
from atoll.experiment.runner import run_experiment
from atoll.federation.codec import Request, decode_answer
from plugin_files import fed_avgm, sha256, trap
from result_comparison import assert_same_result
from small_federations import community_parties
from thread_fleet import OPEN, deployed, experiment


def parties():
    return community_parties((19, 25, 14))


def with_admitting(coordinator, admits):
    for name, admitted in admits.items():
        old = coordinator.fleet.sites[name]
        coordinator.fleet.sites[name] = Site(old.data, old.state, admits=admitted, policy=OPEN)
    return coordinator


def test_sites_that_admit_a_plug_in_give_the_numbers_of_a_simulation(tmp_path):
    address = f"{fed_avgm(tmp_path)}:FedAvgM"
    (tmp_path / "elsewhere").mkdir()
    copied = f"{fed_avgm(tmp_path / 'elsewhere')}:FedAvgM"  # sites have files of their own
    coordinator = deployed(tmp_path, parties(), address)
    admits = {name: [copied] for name in coordinator.fleet.sites}
    result = with_admitting(coordinator, admits).run()
    simulated = run_experiment(experiment(tmp_path / "sites", address), tmp_path / "simulated")
    assert_same_result(simulated, result)
    sent = b"".join(coordinator.fleet.transcript)
    assert b"mine.py:FedAvgM" in sent
    assert str(tmp_path).encode() not in sent  # where it lies is nobody's business


def test_a_site_that_does_not_admit_it_sits_out_and_the_coordinator_says_why(tmp_path):
    address = f"{fed_avgm(tmp_path)}:FedAvgM"
    coordinator = deployed(tmp_path, parties(), address, rounds=2)
    names = list(coordinator.fleet.sites)
    with_admitting(coordinator, {name: [address] for name in names[:2]})
    coordinator.run()
    assert "does not admit" in coordinator.fed.missing[names[2]]


@pytest.fixture
def asked(tmp_path, caplog):
    """What a site answers to a table that a hostile server sends, and what its log says."""
    coordinator = deployed(tmp_path, parties(), "fed-avg")
    honest = {k: v for k, v in describe(coordinator.plan.experiment).items() if k != "data"}
    party = next(iter(coordinator.fleet.sites.values()))

    def ask(section, values, admits=()):
        table = honest | {section: honest.get(section, {}) | values}
        site = Site(party.data, tmp_path / "fresh", admits=admits, policy=OPEN)
        message = Request("begin", "run-1", 0, {"experiment": table, "client": 0}).encode()
        with caplog.at_level(logging.ERROR):
            answer = decode_answer(site.handle(message))
        step = decode_answer(site.handle(Request("step", "run-1", 0).encode()))
        return answer.error, step.error

    return ask


@pytest.mark.parametrize("section", ["method", "model", "task", "optimizer", "data", "partition"])
@pytest.mark.parametrize("relative", [False, True])
def test_no_file_that_a_server_names_is_run(asked, tmp_path, monkeypatch, section, relative):
    file, mark = trap(tmp_path)
    monkeypatch.chdir(tmp_path)
    name = "evil.py:Evil" if relative else f"{file}:Evil"
    assert asked(section, {"name": name, "sha256": sha256(file)})[0] == "PluginNotAdmitted"
    assert not mark.exists()


@pytest.mark.parametrize("factory", ["evil:Evil", "evil.py:Evil", "os:system", "antigravity:x"])
def test_no_factory_that_a_server_names_is_imported(asked, tmp_path, monkeypatch, factory):
    file, mark = trap(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    told = asked("model", {"name": "module", "factory": factory, "sha256": sha256(file)})
    assert told[0] == "PluginNotAdmitted"
    assert not mark.exists()


def test_nor_one_that_hides_in_an_option(asked, tmp_path):
    file, mark = trap(tmp_path)
    for inner in (f"{file}:Evil", {"name": f"{file}:Evil", "sha256": sha256(file)}):
        assert asked("method", {"name": "self-training", "method": inner})[0]
        assert asked("method", {"name": "self-training", "inner": inner})[0]
    assert not mark.exists()


def test_an_admitted_name_with_other_content_is_refused_before_it_is_run(asked, tmp_path):
    file, mark = trap(tmp_path)
    admitted = [f"{file}:Evil"]
    for digest in ("0" * 64, "", 3):
        values = {"name": "evil.py:Evil", "sha256": digest}
        assert asked("method", values, admitted)[0] == "PluginNotAdmitted"
    assert not mark.exists()
    # To the byte the one that was admitted, it is run; that it is no method comes then.
    values = {"name": "evil.py:Evil", "sha256": sha256(file)}
    assert asked("method", values, admitted)[0] == "AtollError"
    assert mark.exists()


def test_a_refused_run_leaves_nothing_that_a_later_request_could_begin_from(asked, tmp_path):
    file, mark = trap(tmp_path)
    told = asked("method", {"name": f"{file}:Evil", "sha256": sha256(file)})
    assert told == ("PluginNotAdmitted", "NotBegun")
    assert not mark.exists()


def test_a_job_names_only_what_was_handed_in_on_the_servers_machine(tmp_path):
    file, mark = trap(tmp_path)
    coordinator = deployed(tmp_path, parties(), "fed-avg")
    table = describe(coordinator.plan.experiment)
    table["method"] |= {"name": f"{file}:Evil", "sha256": sha256(file)}
    with pytest.raises(AtollError, match="submit it here"):
        open_run(tmp_path / "runs", coordinator.plan.table(), table)
    assert not mark.exists()
    # Nor in the name of a run that was handed in with other code.
    plan = replace(coordinator.plan, run="run")
    with pytest.raises(AtollError, match="submit it here"):
        open_run(tmp_path, plan.table(), table)
    assert not mark.exists()
