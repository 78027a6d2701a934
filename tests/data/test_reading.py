from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.data.reading import checked_edges, checked_labels, compact, readable
from atoll.errors import AtollError


def fail(problem: Exception) -> None:
    with readable(Path("raw/x.npz"), "a graph"):
        raise problem


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (ValueError("first line.\nsecond line"), "first line"),
        (KeyError("labels"), "labels"),
        (EOFError(), "EOFError"),
        (MemoryError("Unable to allocate 9 TiB"), "Unable to allocate 9 TiB"),
    ],
)
def test_damage_becomes_a_sentence(problem: Exception, reason: str) -> None:
    with pytest.raises(AtollError) as caught:
        fail(problem)
    assert str(caught.value) == (
        f"'raw/x.npz' can't be read as a graph ({reason}); replace it, or delete it and fetch it "
        f"anew."
    )


def test_sentences_of_our_own_pass() -> None:
    with pytest.raises(AtollError, match=r"^mine$"):
        fail(AtollError("mine"))


def test_edges_between_existing_nodes() -> None:
    checked_edges(np.array([[0], [1]]), 2)
    checked_edges(np.zeros((2, 0), int), 0)
    for edges in ([[0], [2]], [[-1], [0]], [[0.0], [1.0]], [[0, 1]], [0, 1]):
        with pytest.raises(ValueError, match="its edges"):
            checked_edges(np.array(edges), 2)


def test_labels_for_every_node() -> None:
    checked_labels(np.array([1, 0]), 2)
    for labels in ([1], [[1], [0]], [0.5, 1.5]):
        with pytest.raises(ValueError, match="its labels"):
            checked_labels(np.array(labels), 2)


def test_features_take_the_smaller_form() -> None:
    half = compact(np.array([[1, 0], [0, 5]], dtype=np.uint8))
    assert sparse.issparse(half)
    assert half.dtype == np.float32
    assert isinstance(compact(np.array([[1, 0], [3, 5]])), np.ndarray)
    for features in (np.array(["a"]), np.array([["a"]]), np.zeros(3)):
        with pytest.raises(ValueError, match="its features are no table of numbers"):
            compact(features)
