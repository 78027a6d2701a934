import torch

from atoll.cached import Cached
from atoll.leaves import Ragged


def test_what_is_derived_is_computed_once_per_key():
    thing, calls = Cached(), []
    for key in ("a", "b", "a"):
        assert thing.cached(key, lambda key=key: calls.append(key) or key.upper()) == key.upper()
    assert calls == ["a", "b"]
    assert thing.has_cached("a")
    assert not thing.has_cached("c")


def test_nothing_is_a_result_too():
    thing, calls = Cached(), []
    for _ in range(2):
        assert thing.cached("none", lambda: calls.append(1)) is None
    assert len(calls) == 1


def test_the_latest_is_kept_while_its_leaves_are_equal():
    thing = Cached()
    values = torch.tensor([1.0, 2.0, 3.0])

    def latest(leaf):
        return thing.latest("made", (leaf,), lambda: [leaf])

    first = latest(Ragged(values, (1, 2)))
    assert latest(Ragged(values.clone(), (1, 2))) is first
    assert latest(Ragged(values, (2, 1))) is not first
    assert latest(Ragged(values, (1, 2))) is not first
    assert latest(values) is not latest(values + 1)
    assert latest(values + 1) is latest(values + 1)
