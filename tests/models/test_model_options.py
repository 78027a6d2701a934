"""Options out of bounds are refused with one sentence."""

import pytest

from atoll.errors import AtollError
from atoll.models.base import models


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gcn", {"hidden": 0}, r"model\.hidden is 0; it must be at least 1\."),
        ("mlp", {"hidden": 0}, r"model\.hidden is 0; it must be at least 1\."),
        ("sage", {"dropout": 1.0}, r"model\.dropout is 1\.0; it must be at least 0 and below 1\."),
        ("gat", {"heads": 0}, r"model\.heads is 0; it must be at least 1\."),
        ("sgc", {"hops": 0}, r"model\.hops is 0; it must be at least 1\."),
        ("appnp", {"hops": 0}, r"model\.hops is 0; it must be at least 1\."),
        ("appnp", {"alpha": 1.5}, r"model\.alpha is 1\.5; it must be at least 0 and at most 1\."),
    ],
)
def test_a_value_out_of_bounds_names_the_option_and_its_bounds(name, options, message):
    with pytest.raises(AtollError, match=message):
        models[name](**options)
