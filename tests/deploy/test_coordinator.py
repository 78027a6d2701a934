"""A deployment without an engine: the same numbers as a simulation, whatever fails."""

import pickle
import time

import polars
import pytest
import torch
from support import make, small_parties

from atoll.archive import read_tree
from atoll.errors import AtollError
from atoll.experiment.checkpoint import load_checkpoint
from atoll.experiment.runner import run_experiment
from atoll.federation.codec import Answer, decode_request
from atoll.methods.base import methods
from atoll.tree import flat
from result_comparison import assert_same_result
from small_collections import collection_parties
from small_federations import community_parties
from thread_fleet import again, deployed, experiment

DEPLOYABLE = [name for name in methods if not (make(name).pooled or make(name).only_simulated)]


def parties():
    return community_parties((19, 25, 14))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] if n == "o-pfgl" else []) for n in DEPLOYABLE],
)
def test_every_method_gives_the_numbers_of_a_simulation(name, tmp_path):
    if make(name).needs_anchors:
        pytest.importorskip("rbcl")
    graphs = small_parties(name, (19, 25, 14))
    result = deployed(tmp_path, graphs, name).run()
    simulated = run_experiment(experiment(tmp_path / "sites", name), tmp_path / "simulated")
    assert_same_result(simulated, result)
    assert (result.bytes_up, result.bytes_down) == (simulated.bytes_up, simulated.bytes_down)


@pytest.mark.parametrize("name", ["fed-avg", "gcfl", "fed-star"])
def test_sites_that_hold_many_small_graphs(name, tmp_path):
    # Sites say which class is the rarer one before they divide their graphs; here both are equal.
    task = {"name": "graphs", "positive": 1}
    result = deployed(tmp_path, collection_parties((7, 11, 8)), name, task=task).run()
    there = experiment(tmp_path / "sites", name, task=task)
    assert_same_result(run_experiment(there, tmp_path / "simulated"), result)


@pytest.mark.parametrize("name", ["fed-avg", "fed-pub"])
def test_in_float32_it_is_the_same_bytes_as_client_by_client(name, tmp_path):
    result = deployed(tmp_path, parties(), name, dtype="float32").run()
    one_by_one = experiment(tmp_path / "sites", name, dtype="float32", chunk=1)
    simulated = run_experiment(one_by_one, tmp_path / "simulated")
    assert_same_result(simulated, result, tolerance=0)


def test_anchors_are_not_matched_for_a_method_that_makes_no_use_of_them(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-gnn", rounds=1)
    asked = set()
    coordinator.fleet.fault = lambda site, message: asked.add(decode_request(message).ask)
    coordinator.run()
    assert "step" in asked
    assert "match" not in asked


def is_step(message):
    return decode_request(message).ask == "step"


def final_bytes(coordinator):
    return (coordinator.run_dir / "parameters.safetensors").read_bytes()


class Killed(BaseException):
    """As sudden as SIGKILL: nothing catches it."""


@pytest.mark.parametrize("name", ["fed-avg", "fed-pub"])
@pytest.mark.parametrize("message", [1, 2, 3, 4, 7, 10, 12])
def test_a_run_killed_at_any_message_resumes_to_the_same_bytes(name, message, tmp_path):
    whole = deployed(tmp_path / "whole", parties(), name)
    whole.run()
    broken = deployed(tmp_path / "broken", parties(), name)
    exchange, sent = broken.fleet.exchange, 0

    def fatal(messages, seconds):
        nonlocal sent
        sent += 1
        replies = exchange(messages, seconds)
        if sent == message:
            raise Killed
        return replies

    broken.fleet.exchange = fatal
    with pytest.raises(Killed):
        broken.run()
    continued = again(broken)
    result = continued.run()
    assert final_bytes(continued) == final_bytes(whole)
    assert result.history.shape == (12, 26)


def test_a_torn_checkpoint_is_noticed_and_the_one_before_used(tmp_path):
    whole = deployed(tmp_path / "whole", parties(), "fed-pub")
    whole.run()
    broken = deployed(tmp_path / "broken", parties(), "fed-pub")
    broken.stopped = lambda: broken.rounds.done == 3
    with pytest.raises(AtollError, match="ended after round 3"):
        broken.run()
    newest = sorted((broken.run_dir / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-50])
    continued = again(broken)
    continued.run()
    assert final_bytes(continued) == final_bytes(whole)


def test_a_dead_site_is_left_out_and_comes_back(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=6)
    fleet, (first, *_) = coordinator.fleet, coordinator.plan.sites

    def fault(site, message):
        fleet.down = {first} if coordinator.rounds.done in (1, 2) else set()

    fleet.fault = fault
    result = coordinator.run()
    took_part = result.history.group_by("round").len().sort("round")["len"].to_list()
    assert took_part[0] == 3
    assert 2 in took_part
    assert took_part[-1] == 3


def test_a_straggler_is_left_out_and_its_late_reply_changes_nothing(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=4, terms={"deadline": 0.4})
    slow = coordinator.plan.sites[2]
    # Warm up, so that only the delay below makes anybody late.
    for site in coordinator.fleet.sites.values():
        site.graph()
    lagging = []

    def fault(site, message):
        if site == slow and coordinator.rounds.done == 1 and is_step(message) and not lagging:
            lagging.append(site)
            time.sleep(4.0)

    coordinator.fleet.fault = fault
    result = coordinator.run()
    rounds = dict(result.history.group_by("round").len().iter_rows())
    assert rounds[2] == 2
    assert result.history.filter(polars.col("round") == 2)["client"].to_list() == [0, 1]


def test_a_reply_to_an_earlier_request_is_rejected(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2)
    fleet, odd = coordinator.fleet, coordinator.plan.sites[0]
    kept = []

    def replay(site, message):
        if site == odd and is_step(message):
            if kept:
                return kept[0]
            kept.append(fleet.sites[site].handle(message))
            return kept[0]
        return None

    fleet.fault = replay
    result = coordinator.run()
    assert result.history.filter(polars.col("client") == 0).is_empty()
    assert coordinator.fed.missing[odd].startswith("a reply to an earlier request")


def test_below_the_quorum_it_waits_then_stops_and_the_model_stays(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=6, terms={"patience": 1.5})
    fleet = coordinator.fleet

    def fault(site, message):
        if coordinator.rounds.done == 2:
            fleet.down = set(coordinator.plan.sites[:2])

    fleet.fault = fault
    started = time.monotonic()
    with pytest.raises(AtollError, match=r"1 of 3 sites .* quorum of 2 .* that of round 2;"):
        coordinator.run()
    assert 1.5 < time.monotonic() - started < 20
    round, state, *_ = load_checkpoint(coordinator.run_dir)
    assert round == 2
    held = flat(coordinator.rounds.state)
    assert set(held) == set(flat(state))
    assert all(torch.equal(leaf, held[name]) for name, leaf in flat(state).items())
    # With the sites back it goes on to what an undisturbed run gives.
    continued = again(coordinator)
    continued.run()
    whole = deployed(tmp_path / "whole", parties(), "fed-avg", rounds=6)
    whole.run()
    assert final_bytes(continued) == final_bytes(whole)


def test_sites_that_seem_present_but_are_not_yet_are_waited_for(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2, terms={"deadline": 0.5})
    fleet, opening = coordinator.fleet, []

    def fault(site, message):
        if decode_request(message).ask == "hello" and len(opening) < 5:
            opening.append(site)
            raise ConnectionError

    fleet.fault = fault
    result = coordinator.run()
    assert len(opening) == 5
    assert len(result.history) == 6


def test_a_run_that_can_not_go_on_tells_the_round_it_has(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=4, terms={"patience": 1.0})
    coordinator.fleet.fault = lambda site, message: (
        coordinator.fleet.down.update(coordinator.plan.sites)
        if coordinator.rounds.done == 2
        else None
    )
    with pytest.raises(AtollError, match="that of round 2;"):
        coordinator.run()
    continued = again(coordinator)
    continued.fleet.down = set(coordinator.plan.sites)
    with pytest.raises(AtollError, match="that of round 2;"):
        continued.run()


def test_an_error_at_a_site_reaches_the_server_as_its_class_name_only(tmp_path, caplog):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2)
    site = coordinator.fleet.sites[coordinator.plan.sites[1]]

    def secretive(request):
        raise ZeroDivisionError("patient Zyx-4711 has no neighbours")

    site._step = secretive
    coordinator.run()
    told = (
        b"".join(coordinator.fleet.transcript) + (coordinator.run_dir / "status.json").read_bytes()
    )
    assert b"ZeroDivisionError" in told
    assert b"Zyx-4711" not in told
    assert "ZeroDivisionError at the site" in coordinator.fed.missing[coordinator.plan.sites[1]]
    assert any("Zyx-4711" in str(record.exc_info) for record in caplog.records)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"junk" * 100,
        pickle.dumps({"a": 1}),
        Answer("x", {"body/a": torch.zeros(2, 3)}).encode(),
        Answer("", error="<b>an essay about patients</b>").encode(),
    ],
)
def test_junk_from_a_site_is_left_out(junk, tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2)
    odd = coordinator.plan.sites[0]
    coordinator.fleet.fault = lambda site, message: (
        junk if site == odd and is_step(message) else None
    )
    result = coordinator.run()
    assert set(result.history["client"]) == {1, 2}
    assert "essay" not in (coordinator.run_dir / "status.json").read_text()


def test_the_rows_of_two_clients_from_one_site_are_put_on_record_and_left_out(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", rounds=2)
    odd = coordinator.plan.sites[0]

    def two_rows(site, message):
        if site != odd or not is_step(message):
            return None
        return Answer(decode_request(message).id, {"body/a": torch.zeros(2, 3)}).encode()

    coordinator.fleet.fault = two_rows
    result = coordinator.run()
    assert set(result.history["client"]) == {1, 2}
    assert result.rejected_replies == len(coordinator.fed.rejections) == 4
    assert {(r.client, r.reason) for r in coordinator.fed.rejections} == {
        (0, "it is not one client's reply")
    }


def test_sites_that_mean_different_classes_are_refused(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg")
    odd = coordinator.fleet.sites[coordinator.plan.sites[1]]
    manifest = odd.data / "party.toml"
    manifest.write_text(manifest.read_text().replace("classes = 3", "classes = 4"))
    with pytest.raises(AtollError, match="different classes"):
        coordinator.run()


def test_a_pooled_method_is_refused(tmp_path):
    with pytest.raises(AtollError, match="can't be deployed"):
        deployed(tmp_path, parties(), "centralized")


def test_every_site_keeps_its_own_model(tmp_path):
    coordinator = deployed(tmp_path, parties(), "local")
    coordinator.run()
    simulated = run_experiment(experiment(tmp_path / "sites", "local"), tmp_path / "simulated")
    for k, site in enumerate(coordinator.fleet.sites.values()):
        own, _ = read_tree(site.state / coordinator.plan.run / "model.safetensors")
        for name, leaf in own.items():
            theirs = simulated.parameters[f"clients/{name}"][k : k + 1]
            torch.testing.assert_close(leaf, theirs, rtol=1e-9, atol=1e-9)
