from collections import Counter

import numpy as np

from atoll.ops.sampling import drawn_entries

# Three rows with no, two and four entries.
POINTERS = np.array([0, 0, 2, 6])


def test_rows_with_few_entries_have_all_of_them_and_nothing_is_drawn():
    stream = np.random.default_rng(0)
    drawn = drawn_entries(POINTERS, np.array([2, 0, 1]), 4, stream)
    assert drawn.entries.tolist() == [2, 3, 4, 5, 0, 1]
    assert drawn.row.tolist() == [0, 0, 0, 0, 2, 2]
    assert drawn.share.tolist() == [1, 0, 1]
    assert stream.random() == np.random.default_rng(0).random()


def test_0_takes_all():
    assert drawn_entries(POINTERS, np.arange(3), 0, np.random.default_rng(0)).entries.tolist() == [
        0, 1, 2, 3, 4, 5,
    ]  # fmt: skip


def test_every_subset_is_as_likely_and_nothing_comes_twice():
    stream, seen = np.random.default_rng(0), Counter()
    for _ in range(6000):
        drawn = drawn_entries(POINTERS, np.array([2, 1]), 2, stream)
        assert drawn.row.tolist() == [0, 0, 1, 1]
        assert drawn.share.tolist() == [2, 1]
        seen[tuple(sorted(drawn.entries[:2].tolist()))] += 1
    assert set(seen) == {(a, b) for a in range(2, 6) for b in range(a + 1, 6)}
    # Six subsets, a thousand times each, with a standard deviation of 29.
    assert all(abs(count - 1000) < 130 for count in seen.values())
