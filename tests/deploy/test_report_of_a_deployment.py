"""The report of a deployed run: what the server knows, by the sites' names, and no more."""

import pytest

from atoll.errors import AtollError
from atoll.report.facts import report_facts
from atoll.report.figures import draw
from small_federations import community_parties
from thread_fleet import deployed


def test_it_has_names_and_similarities_and_says_what_stays_at_the_sites(tmp_path):
    coordinator = deployed(tmp_path, community_parties(), "fed-pub", rounds=2)
    result = coordinator.run()
    [group] = report_facts([coordinator.run_dir])["groups"]
    assert group["sites"] == list(coordinator.plan.sites)
    assert group["data"] == {"missing": "In a deployment every site's data stays with it."}
    assert group["similarity"]["fed-pub"]["rounds"] == [1, 2]
    assert group["clients"]["fed-pub"] == pytest.approx(
        [client["test_accuracy"] for client in result.per_client], rel=1e-4
    )
    with pytest.raises(AtollError, match="its sites don't send"):
        draw([coordinator.run_dir], "confusion")
