import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.data.published_npz import read_edge_list_npz, read_npz
from atoll.errors import AtollError
from atoll.graph import dense

Write = Callable[..., Path]


def test_sparse_parts_become_a_graph(tmp_path: Path, write_npz: Write) -> None:
    graph = read_npz(write_npz(tmp_path / "g.npz"), "small")
    assert sparse.issparse(graph.x)
    assert graph.x.dtype == np.float32
    np.testing.assert_array_equal(dense(graph.x)[0], [3, 1, 0])
    assert graph.edges.T.tolist() == [
        *([0, 1], [0, 2]),
        *([1, 0], [1, 2]),
        *([2, 0], [2, 1]),
        *([3, 4], [4, 3]),
    ]
    assert graph.y.tolist() == [0, 1, 1, 0, 1]
    assert graph.classes == 2


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"labels": None}, "it holds no array 'labels'"),
        ({"labels": np.array([0, 1])}, "its labels are int64"),
        ({"labels": np.array([0.5] * 5)}, "its labels are float64"),
        ({"attr_indices": np.array([0, 9, 1, 2, 0, 2, 1, 2])}, "indices must be < 3"),
        ({"attr_indptr": np.array([0, 2, 3])}, "index pointer size"),
        ({"attr_shape": np.array([4, 3])}, "index pointer size"),
        ({"adj_indices": np.array([1, 2, 2, 0, 40])}, "indices must be < 5"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, write_npz: Write, changed: dict[str, object], reason: str
) -> None:
    path = write_npz(tmp_path / "g.npz", **changed)
    with pytest.raises(AtollError) as problem:
        read_npz(path, "small")
    sentence = str(problem.value)
    assert sentence.startswith(f"'{path}' can't be read as a graph of sparse arrays ({reason}")
    assert sentence.endswith("replace it, or delete it and fetch it anew.")


def test_damaged_files_never_end_in_a_traceback(tmp_path: Path, write_npz: Write) -> None:
    path = write_npz(tmp_path / "g.npz")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(300):
        damaged = bytearray(whole)
        at = int(rng.integers(len(whole)))
        damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged if rng.random() < 0.8 else damaged[:at])
        try:
            read_npz(path, "small")
        except AtollError as problem:
            sentences.append(str(problem))
    assert len(sentences) > 150
    assert all(str(path) in sentence and "\n" not in sentence for sentence in sentences)


def test_pickles_are_not_run(tmp_path: Path, write_npz: Write) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    bomb = np.array([Bomb()], dtype=object)
    aside = write_npz(tmp_path / "aside.npz", class_names=bomb)
    assert read_npz(aside, "small").nodes == 5
    with pytest.raises(AtollError, match="allow_pickle=False"):
        read_npz(write_npz(tmp_path / "inside.npz", labels=bomb), "small")
    assert not (tmp_path / "exploded").exists()


def test_edge_lists_keep_binary_features_sparse_and_embeddings_dense(tmp_path: Path) -> None:
    pairs, kinds = np.array([[0, 1], [1, 0], [1, 2], [2, 2]]), np.array([0, 1, 0])
    words = np.eye(3, dtype=np.uint8)
    np.savez(tmp_path / "words.npz", features=words, edges=pairs, target=kinds)
    np.savez(tmp_path / "vectors.npz", features=words - 0.5, edges=pairs, target=kinds)
    of_words = read_edge_list_npz(tmp_path / "words.npz", "words")
    of_vectors = read_edge_list_npz(tmp_path / "vectors.npz", "vectors")
    assert sparse.issparse(of_words.x)
    assert isinstance(of_vectors.x, np.ndarray)
    for graph in (of_words, of_vectors):
        assert graph.x.dtype == np.float32
        assert graph.edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_an_edge_to_a_node_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, features=np.eye(2), edges=np.array([[0, 2]]), target=np.array([0, 1]))
    with pytest.raises(AtollError, match="its edges name nodes outside 0 to 1"):
        read_edge_list_npz(path, "g")
