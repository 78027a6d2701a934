"""What an operator of Flower does before it submits a run; what its app makes of errors."""

import pytest

from atoll.deploy.fleet import EngineFailed
from atoll.deploy.flower.operator import FlowerOperator
from atoll.deploy.plan import Terms, new_plan
from thread_fleet import experiment


def test_runs_that_are_not_finished_are_stopped_before_another_is_submitted(tmp_path, monkeypatch):
    """A SuperLink that is started again begins by itself what was accepted before it."""
    runs = {"1": "finished:completed", "2": "pending", "3": "starting", "4": "running"}
    asked = []

    def flwr(self, *arguments):
        asked.append(arguments[:2])
        listed = [{"run-id": number, "status": status} for number, status in runs.items()]
        return {"runs": listed, "run-id": "5"}

    monkeypatch.setattr(FlowerOperator, "_flwr", flwr)
    operator = object.__new__(FlowerOperator)
    operator.kit = tmp_path
    chosen = experiment(tmp_path, "fed-avg")
    assert operator.submit(new_plan("flower", ("a", "b"), chosen, Terms())) == "5"
    stopped = [number for command, number in asked[:-1] if command == "stop"]
    assert stopped == ["2", "3", "4"]
    assert asked[-1][0] == "run"


def test_a_superlink_that_does_not_answer_fails_the_job_and_not_the_run():
    pytest.importorskip("flwr")
    import httpx

    from atoll.deploy.flower.server_app import FlowerFleet

    class Silent:
        def get_node_ids(self):
            raise httpx.ConnectTimeout("the handshake operation timed out")

    fleet = FlowerFleet(Silent(), {"a": 1})
    with pytest.raises(EngineFailed, match="ConnectTimeout"):
        fleet.present(["a"])
    with pytest.raises(EngineFailed, match="ConnectTimeout"):
        fleet.exchange({"a": b""}, 1.0)
