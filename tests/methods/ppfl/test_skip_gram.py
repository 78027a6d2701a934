import builtins

import numpy as np
import pytest
from scipy import sparse

from atoll.errors import AtollError
from atoll.methods.ppfl.skip_gram import random_walks, skip_gram

OPTIONS = {"window": 2, "negative": 5, "lr": 0.05, "epochs": 1}


def adjacency() -> sparse.csr_array:
    """0 - 1 - 2 in a row, and 3 with no neighbour."""
    links = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    return sparse.csr_array(np.array(links, dtype=float))


def test_walks_follow_links_and_start_as_often_at_each_node():
    walks = random_walks(adjacency(), per_node=3, length=5, rng=np.random.default_rng(0))
    assert walks.shape == (9, 5)
    assert np.bincount(walks[:, 0]).tolist() == [3, 3, 3]
    steps = np.abs(np.diff(walks, axis=1))
    assert (steps == 1).all()


def test_a_crossing_is_left_in_every_direction_alike():
    walks = random_walks(adjacency(), per_node=2000, length=2, rng=np.random.default_rng(0))
    onward = walks[walks[:, 0] == 1, 1]
    assert np.bincount(onward, minlength=3)[[0, 2]] / len(onward) == pytest.approx(0.5, abs=0.05)


def two_cliques(size: int) -> sparse.csr_array:
    block = np.ones((size, size)) - np.eye(size)
    return sparse.csr_array(sparse.block_diag([block, block], format="csr"))


def trained(rng, vectors, contexts=None, **options):
    walks = random_walks(two_cliques(6), 10, 10, rng)
    contexts = np.zeros_like(vectors) if contexts is None else contexts
    return skip_gram(walks, vectors, contexts, rng=rng, **(OPTIONS | options))


def start(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.1, 0.1, (12, 4)).astype(np.float32)


@pytest.mark.parametrize("negative", [5, 0])
def test_nodes_that_meet_come_to_lie_together(negative):
    vectors, _ = trained(np.random.default_rng(0), start(), epochs=10, negative=negative)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ unit.T
    assert similarity[:6, :6].mean() > 0.9
    assert similarity[:6, 6:].mean() < 0.5


def test_hierarchical_softmax_starts_a_new_tree_and_leaves_contexts_alone():
    contexts = np.full((12, 4), 0.5, dtype=np.float32)
    one, kept = trained(np.random.default_rng(0), start(), contexts, negative=0)
    other, _ = trained(np.random.default_rng(0), start(), 2 * contexts, negative=0)
    assert np.array_equal(one, other)
    assert np.array_equal(kept, contexts)


def test_the_same_stream_gives_the_same_bytes_and_what_was_given_stays():
    given = start()
    first, again = (trained(np.random.default_rng(3), given) for _ in range(2))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert np.array_equal(given, start())
    assert not np.array_equal(first[0], trained(np.random.default_rng(4), given)[0])


def test_training_goes_on_from_what_it_is_given():
    """At a vanishing learning rate nothing moves away from the start."""
    given, contexts = start(), start(1)
    vectors, after = trained(np.random.default_rng(0), given, contexts, lr=1e-9)
    np.testing.assert_allclose(vectors, given, atol=1e-5)
    np.testing.assert_allclose(after, contexts, atol=1e-5)


def test_nodes_without_walks_keep_their_vectors():
    given = np.ones((4, 2), dtype=np.float32)
    walks = random_walks(adjacency(), 2, 4, np.random.default_rng(0))
    vectors, _ = skip_gram(
        walks, given, np.zeros_like(given), rng=np.random.default_rng(0), **OPTIONS
    )
    assert vectors[3].tolist() == [1.0, 1.0]
    assert not np.array_equal(vectors[:3], given[:3])


def test_a_graph_without_links_changes_nothing():
    given = start()
    nowhere = np.zeros((0, 5), dtype=np.int64)
    vectors, contexts = skip_gram(nowhere, given, given, rng=np.random.default_rng(0), **OPTIONS)
    assert vectors is given
    assert contexts is given


def test_without_gensim_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without_gensim(name, *args, **kwargs):
        if name.startswith("gensim"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_gensim)
    with pytest.raises(AtollError, match=r"atoll\[deepwalk\]"):
        trained(np.random.default_rng(0), start())
