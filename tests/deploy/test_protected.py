"""Protections between real sites: the same door, the system's randomness, the same sums."""

import json

import polars
import pytest

from atoll.archive import read_tree
from atoll.errors import AtollError
from atoll.experiment.runner import run_experiment
from atoll.federation.codec import decode_request
from atoll.privacy.accounting import epsilon_of
from result_comparison import assert_same_result
from small_federations import community_parties
from thread_fleet import again, deployed, experiment

SECURE = {"secure_sum": True, "threshold": 0.6}
NOISE = {"noise": 5.0, "clip": 1.0}


def parties(count=4):
    return community_parties((19, 25, 14, 21)[:count])


def test_secure_sums_give_the_numbers_of_a_simulation(tmp_path):
    result = deployed(tmp_path, parties(), "fed-avg", privacy=SECURE).run()
    plain = run_experiment(experiment(tmp_path / "sites", "fed-avg"), tmp_path / "simulated")
    assert_same_result(plain, result, tolerance=1e-6)
    ledger = polars.read_parquet(tmp_path / "run" / "ledger.parquet")
    trained = ledger.filter((polars.col("step") == "train") & (polars.col("direction") == "up"))
    assert trained["name"].unique().to_list() == ["secure/masked"]
    assert trained["verb"].unique().to_list() == ["sum"]


@pytest.mark.parametrize("step", ["secure_shares", "train", "secure_unmask"])
def test_a_site_that_drops_out_of_a_sum_does_not_spoil_it(step, tmp_path):
    """Three of four must stay; the fourth is killed in the second round."""
    coordinator = deployed(tmp_path, parties(), "fed-avg", privacy=SECURE)

    def fault(site, message):
        request = decode_request(message)
        if site == sorted(coordinator.fleet.sites)[3] and request.ask == "step":
            facts = request.facts
            if facts["step"] == step and facts["round"] >= 2:
                raise TimeoutError

    coordinator.fleet.fault = fault
    result = coordinator.run()
    assert result.figures["rounds"] == 4
    rounds = polars.read_parquet(tmp_path / "run" / "rounds.parquet")
    assert rounds["round"].to_list() == [1, 2, 3, 4]


def test_too_many_dropouts_end_the_run_in_words(tmp_path):
    coordinator = deployed(
        tmp_path, parties(), "fed-avg", privacy=SECURE, terms={"patience": 1.0, "quorum": 2}
    )
    gone = sorted(coordinator.fleet.sites)[2:]

    def fault(site, message):
        request = decode_request(message)
        if site in gone and request.ask == "step" and request.facts["step"] == "train":
            raise TimeoutError

    coordinator.fleet.fault = fault
    with pytest.raises(AtollError, match="none of the 4 rounds changed anything"):
        coordinator.run()


def test_noise_at_sites_is_not_that_of_the_seed_and_is_counted_there(tmp_path):
    first = deployed(tmp_path / "a", parties(), "fed-avg", privacy=NOISE).run()
    again_ = deployed(tmp_path / "b", parties(), "fed-avg", privacy=NOISE).run()
    simulated = run_experiment(
        experiment(tmp_path / "a" / "sites", "fed-avg", privacy=NOISE), tmp_path / "simulated"
    )
    models = [
        read_tree(folder / "parameters.safetensors")[0]["server/model/conv1.weight"]
        for folder in (first.run_dir, again_.run_dir, simulated.run_dir)
    ]
    assert not models[0].equal(models[1])
    assert not models[0].equal(models[2])
    assert first.figures["epsilon"] == simulated.figures["epsilon"] == epsilon_of(5.0, 4, 1e-5)
    count = (tmp_path / "a" / "state").glob("*/*/spent.json")
    spent = [json.loads(file.read_text()) for file in count]
    assert [list(one.values()) for one in spent] == [[4]] * 4


def test_a_deployed_run_ends_at_its_budget(tmp_path):
    budget = NOISE | {"epsilon": epsilon_of(5.0, 2, 1e-5) + 1e-9}
    result = deployed(tmp_path, parties(), "fed-avg", privacy=budget).run()
    assert result.figures["rounds"] == 2
    assert any("privacy budget is spent" in remark for remark in result.remarks)


def test_a_resumed_run_remembers_what_was_spent(tmp_path):
    coordinator = deployed(tmp_path, parties(), "fed-avg", privacy=NOISE)
    rounds = iter([False] * 2 + [True] * 50)
    coordinator.stopped = lambda: next(rounds)
    with pytest.raises(AtollError, match="was ended"):
        coordinator.run()
    result = again(coordinator).run()
    assert result.figures["epsilon"] == epsilon_of(5.0, 4, 1e-5)


def test_what_was_sent_to_a_server_that_was_killed_counts(tmp_path):
    """The sites have answered the third round, of which no row tells; then they do so again."""

    class Killed(BaseException):
        pass

    coordinator = deployed(tmp_path, parties(), "fed-avg", privacy=NOISE)
    deliver = coordinator.fed.deliver

    def killed(call, to, each):
        yield from deliver(call, to, each)
        if (call.step, call.round) == ("train", 3):
            raise Killed

    coordinator.fed.deliver = killed
    with pytest.raises(Killed):
        coordinator.run()
    result = again(coordinator).run()
    spent = [json.loads(f.read_text()) for f in (tmp_path / "state").glob("*/*/spent.json")]
    assert [list(one.values()) for one in spent] == [[5]] * 4
    assert result.figures["epsilon"] == epsilon_of(5.0, 5, 1e-5)


def test_what_a_site_sent_too_late_counts(tmp_path):
    coordinator = deployed(
        tmp_path, parties(), "fed-avg", privacy=NOISE, terms={"quorum": 2, "patience": 1.0}
    )
    late = coordinator.plan.sites[0]
    site = coordinator.fleet.sites[late]

    def fault(name, message):
        request = decode_request(message)
        if name == late and request.facts.get("step") == "train" and request.facts["round"] == 2:
            site.handle(message)
            raise TimeoutError

    coordinator.fleet.fault = fault
    coordinator.run()
    rows = polars.read_parquet(tmp_path / "run" / "history.parquet")
    counted = rows.filter(polars.col("client") == 0)["epsilon"].to_list()
    [file] = (tmp_path / "state" / late).glob("*/spent.json")
    assert counted[-1] == epsilon_of(5.0, json.loads(file.read_text())["0"], 1e-5)


def test_a_site_whose_budget_is_spent_is_named(tmp_path):
    """Its own count is ahead of the server's, as after a server that lost its checkpoints."""
    budget = NOISE | {"epsilon": epsilon_of(5.0, 4, 1e-5) + 1e-9}
    coordinator = deployed(tmp_path, parties(), "fed-avg", privacy=budget)
    for site, party in coordinator.fleet.sites.items():
        folder = party.state / coordinator.plan.run
        folder.mkdir(parents=True)
        client = coordinator.plan.sites.index(site)
        (folder / "spent.json").write_text(json.dumps({client: 3}))
    with pytest.raises(AtollError, match="its privacy budget is spent"):
        coordinator.run()


def test_a_robust_mean_is_that_of_a_simulation(tmp_path):
    result = deployed(
        tmp_path, parties(), "fed-avg", privacy={"robust": "median", "hostile": 1}
    ).run()
    simulated = run_experiment(
        experiment(tmp_path / "sites", "fed-avg", privacy={"robust": "median", "hostile": 1}),
        tmp_path / "simulated",
    )
    assert_same_result(simulated, result)


def test_a_plan_that_promises_too_much_is_refused(tmp_path):
    with pytest.raises(AtollError, match="fed-pub can't do with"):
        deployed(tmp_path, parties(), "fed-pub", privacy=SECURE)
