"""A hostile site on a real NVIDIA FLARE federation: its relay carries what sites say to sites."""

import json
import shutil
from pathlib import Path

import pytest

from atoll.data.parties import write_parties
from atoll.deploy.local import LocalFederation, federation
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.up import site_names
from atoll.experiment.run_dir import store_setup
from atoll.experiment.runner import run_experiment
from result_comparison import assert_same_result
from small_federations import community_parties
from thread_fleet import experiment


@pytest.mark.long
def test_sites_do_not_answer_a_site_that_speaks_as_the_coordinator(tmp_path, monkeypatch):
    pytest.importorskip("nvflare")
    folders = write_parties(community_parties((19, 25, 14)), tmp_path / "sites")
    chosen = experiment(tmp_path / "sites", "fed-avg", 12)
    sites = site_names(folders)
    hostile, *victims = sites
    plan = new_plan("nvflare", tuple(sites), chosen, Terms(deadline=60.0, patience=120.0))
    (tmp_path / "code").mkdir()
    shutil.copy(
        Path(__file__).parent / "flare" / "hostile_site.py", tmp_path / "code" / "sitecustomize.py"
    )
    replies = tmp_path / "replies.json"
    settings = {
        "PYTHONPATH": str(tmp_path / "code"),
        "ATOLL_TEST_REPLIES": str(replies),
        "ATOLL_TEST_TARGETS": json.dumps([plan.run, victims]),
    }
    start = LocalFederation.start_site
    monkeypatch.setattr(
        LocalFederation,
        "start_site",
        lambda stage, site, more: start(stage, site, settings if site == hostile else more),
    )
    with federation(tmp_path / "federation", "nvflare", sites) as stage:
        run_dir = tmp_path / plan.run
        run_dir.mkdir()
        store_setup(run_dir, chosen, 1)
        plan.store(run_dir)
        result = stage.run(plan, run_dir)
        noted = json.loads(replies.read_text())
        logs = {site: stage.log(site).read_text() for site in victims}
    asked = [(victim, ask) for victim, ask, _, _ in noted]
    asks = ("ping", "hello", "match", "begin", "step")
    assert asked == [(victim, ask) for victim in victims for ask in asks]
    # The relay does carry it, and the site's code is reached: its door answers nothing.
    assert {(code, content) for _, _, code, content in noted} == {("OK", "")}
    assert all(log.count("a message was refused") == len(asks) for log in logs.values())
    simulated = run_experiment(chosen, tmp_path / "simulated")
    assert_same_result(simulated, result, 1e-6)
