"""What a deployed run is held to, and what is refused before it begins."""

import pytest

from atoll.deploy.plan import Terms, new_plan, open_run, read_plan
from atoll.errors import AtollError
from atoll.experiment.run_dir import store_setup
from thread_fleet import experiment


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"deadline": 0.0}, "terms.deadline is 0.0; it must be above 0"),
        ({"patience": -1.0}, "terms.patience is -1.0; it must be above 0"),
        ({"quorum": -1}, "terms.quorum is -1; it must be at least 0"),
    ],
)
def test_terms_out_of_bounds_are_one_sentence(terms, sentence):
    with pytest.raises(AtollError, match=sentence):
        Terms(**terms)


def test_a_quorum_is_more_than_half_unless_it_is_given(tmp_path):
    chosen = experiment(tmp_path, "fed-avg")
    assert new_plan("nvflare", ("a", "b", "c", "d"), chosen, Terms()).quorum == 3
    assert new_plan("nvflare", ("a", "b", "c", "d"), chosen, Terms(quorum=1)).quorum == 1
    with pytest.raises(AtollError, match="there are 2 sites"):
        new_plan("nvflare", ("a", "b"), chosen, Terms(quorum=3))


def test_a_plan_is_read_back_as_it_was(tmp_path):
    chosen = experiment(tmp_path, "fed-avg")
    plan = new_plan("flower", ("a", "b"), chosen, Terms(deadline=7.0))
    store_setup(tmp_path, chosen, 1)
    plan.store(tmp_path)
    assert read_plan(tmp_path) == plan


@pytest.mark.parametrize("name", ["../escaped", "a/b", ".hidden", "", "x" * 200, 7])
def test_a_run_whose_name_leads_elsewhere_is_refused(name, tmp_path):
    table = {"run": name, "engine": "nvflare", "sites": ["a"], "terms": {}}
    with pytest.raises(AtollError, match="no name of a run"):
        open_run(tmp_path / "runs", table, {"method": {"name": "fed-avg"}})
    assert not list(tmp_path.iterdir())
