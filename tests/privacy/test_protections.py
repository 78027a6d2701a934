"""The section [privacy]: its bounds, and what does not go together."""

import pytest

from atoll.errors import AtollError
from atoll.experiment.config import describe, resolve
from atoll.privacy.protections import Privacy
from option_bounds import numbers_without_bounds, outside, refused_in_one_sentence


def test_every_number_has_bounds():
    assert numbers_without_bounds(Privacy) == set()


@pytest.mark.parametrize(("name", "value", "text"), list(outside(Privacy)))
def test_a_value_beyond_a_bound_is_refused(name, value, text):
    refused_in_one_sentence("privacy", Privacy, name, value, text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"noise": 1.0}, "set privacy.clip"),
        ({"epsilon": 8.0}, "set privacy.noise"),
        ({"robust": "median", "secure_sum": True}, "choose one of them"),
        ({"noise": 1.0, "clip": 1.0, "noise_at": "sum"}, "privacy.secure_sum=true"),
        ({"unit": "node"}, "set privacy.noise"),
    ],
)
def test_what_does_not_go_together_is_refused(options, said):
    with pytest.raises(AtollError, match=said):
        Privacy(**options)


def test_the_section_is_described_where_it_protects_anything():
    assert "privacy" not in describe(resolve({}))
    table = {"privacy": {"noise": 2.0, "clip": 1.0, "epsilon": 8.0}}
    described = describe(resolve(table))["privacy"]
    assert described["noise"] == 2.0
    assert described["delta"] == 1e-5
    assert resolve({"privacy": described}).privacy == Privacy(**table["privacy"])


def test_an_unknown_protection_is_refused():
    with pytest.raises(AtollError, match=r"privacy\.nois"):
        resolve({"privacy": {"nois": 1.0}})
