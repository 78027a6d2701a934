"""Real engines on loopback, secured: the numbers of a simulation, to 1e-6."""

import importlib.util

import pytest

from atoll.data.parties import write_parties
from atoll.deploy.families import family
from atoll.deploy.plan import Terms, new_plan
from atoll.deploy.up import federation, site_names
from atoll.experiment.result import store_setup
from atoll.experiment.runner import run_experiment
from result_comparison import assert_same_result
from small_federations import community_parties
from thread_fleet import experiment

TERMS = Terms(deadline=120.0, patience=120.0)
ENGINES = {"nvflare": "nvflare", "flower": "flwr"}


@pytest.fixture(scope="module", params=ENGINES)
def stage(request, tmp_path_factory):
    """One federation an engine, on which several runs are made."""
    package = ENGINES[request.param]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; it comes with the dev extra")
    root = tmp_path_factory.mktemp(request.param)
    folders = write_parties(community_parties((19, 25, 14)), root / "sites")
    with federation(root / "federation", request.param, site_names(folders)) as stage:
        stage.name, stage.root = request.param, root
        yield stage
    assert not family({process.mark for process in stage.household.members.values()})


def deployed(stage, method, rounds):
    chosen = experiment(stage.root / "sites", method, rounds)
    plan = new_plan(stage.name, tuple(stage.sites), chosen, TERMS)
    run_dir = stage.root / plan.run
    run_dir.mkdir()
    store_setup(run_dir, chosen, 1)
    plan.store(run_dir)
    return stage.run(plan, run_dir)


@pytest.mark.parametrize("method", ["fed-avg", "fed-pub", "fed-sage-plus"])
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
