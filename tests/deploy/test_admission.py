"""A site runs no code but Atoll's own and what its people have named: attacked in process."""

import logging
from dataclasses import replace

import pytest

from atoll.deploy.admission import Admission
from atoll.deploy.plan import open_run
from atoll.deploy.policy.default import policy_at
from atoll.deploy.site import Site
from atoll.errors import AtollError
from atoll.experiment.config import describe, resolve
from atoll.experiment.runner import run_experiment
from atoll.federation.codec import Request, decode_answer
from atoll.plugins import admitting
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


@pytest.mark.parametrize("section", ["method", "model"])
def test_a_file_that_is_exchanged_after_it_was_looked_at_is_not_run(section, tmp_path):
    """Between the look at its SHA-256 and its use."""
    file = fed_avgm(tmp_path) if section == "method" else tmp_path / "mine.py"
    if section == "model":
        file.write_text("def FedAvgM(features, classes):\n    raise SystemExit\n")
    key = {"method": "name", "model": "factory"}[section]
    table = {section: {key: "mine.py:FedAvgM", "sha256": sha256(file)}}
    if section == "model":
        table["model"]["name"] = "module"
    admission = Admission([f"{file}:FedAvgM"])
    own = admission.localized(table)
    evil, mark = trap(tmp_path)
    file.write_bytes(evil.read_bytes())
    with admitting(admission.addresses), pytest.raises(AtollError, match="has changed"):
        resolve(own)
    assert not mark.exists()


@pytest.mark.parametrize("who", ["file", "folder"])
def test_a_plug_in_or_policy_that_everybody_can_write_is_refused(who, tmp_path):
    """Whoever may write it says what is run, or admitted, here."""
    home = tmp_path / "home"
    home.mkdir()
    file, policy = fed_avgm(home), home / "policy.toml"
    policy.write_text("")
    link = tmp_path / "link.toml"
    link.symlink_to(policy)
    admission = Admission([f"{file}:FedAvgM"])
    admission.check()
    assert policy_at(link).admitted.methods
    for place in (file, policy) if who == "file" else (home,):
        place.chmod(0o777)
    for look in (admission.check, lambda: policy_at(policy), lambda: policy_at(link)):
        with pytest.raises(AtollError, match="everybody on this machine can write"):
            look()
    if who == "folder":  # like /tmp: nobody exchanges what is another's there
        home.chmod(0o1777)
        admission.check()
        policy_at(link)


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
