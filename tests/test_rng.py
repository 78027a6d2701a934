"""Streams are numpy's own, however many are made at once."""

from hashlib import blake2b

import numpy as np
import pytest

from atoll.rng import CohortRng, server_stream, stream, streams


def by_numpy(*key):
    words = np.frombuffer(blake2b(repr(key).encode(), digest_size=16).digest(), dtype="<u4")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words.tolist())))


@pytest.mark.parametrize("count", [1, 15, 16, 300])
def test_many_streams_are_those_of_numpy_s_seed_sequence(count):
    made = streams((7, client, 3, "train#0") for client in range(count))
    assert len(made) == count
    for client, own in enumerate(made):
        expected = by_numpy(7, client, 3, "train#0")
        assert own.bit_generator.random_raw(3).tolist() == (
            expected.bit_generator.random_raw(3).tolist()
        )
        assert own.random() == expected.random()
        assert own.integers(1000) == expected.integers(1000)


def test_a_client_s_stream_does_not_depend_on_the_cohort():
    cohort = CohortRng(0, range(40), 2, "train#1")
    alone = CohortRng(0, [17], 2, "train#1")
    assert cohort.streams[17].random() == alone.streams[0].random()


def test_streams_of_other_keys_differ():
    draws = [
        s.random()
        for s in (
            stream(0, 1, 2, "a"),
            stream(1, 1, 2, "a"),
            stream(0, 2, 2, "a"),
            stream(0, 1, 3, "a"),
            stream(0, 1, 2, "b"),
            server_stream(0, 2, "a"),
        )
    ]
    assert len(set(draws)) == len(draws)


def test_what_inactive_clients_draw_is_nobody_s():
    rng = CohortRng(0, range(20), 1, "train")
    part = rng.only([i == 3 for i in range(20)])
    assert part.streams[3] is rng.streams[3]
    untouched = CohortRng(0, range(20), 1, "train").streams[4].random()
    part.streams[4].random(5)
    assert rng.streams[4].random() == untouched
