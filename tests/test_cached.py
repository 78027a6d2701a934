from atoll.cached import Cached


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
