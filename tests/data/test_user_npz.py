"""A graph from an .npz file of plain arrays."""

import numpy as np
import pytest
from complaints import complaint
from scipy import sparse

from atoll.data import Npz, user_npz
from atoll.errors import AtollError

# 0 - 1 - 2, and 3 alone.
EDGES = np.array([[0, 1], [1, 2]])
X = np.array([[1, 0], [0, 2], [0, 0], [3, 0]], dtype=np.float64)
Y = np.array([0, 1, -1, 1])
PLAIN = {"x": X, "edge_index": EDGES, "y": Y}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Stores arrays, leaving out those that are None, and reads them back."""
    monkeypatch.chdir(tmp_path)

    def read(directed=False, **arrays):
        kept = {key: array for key, array in (PLAIN | arrays).items() if array is not None}
        np.savez("g.npz", **kept)
        return Npz(path="g.npz", directed=directed).load()

    return read


def csr_parts(prefix, matrix):
    parts = sparse.csr_array(matrix)
    return {
        f"{prefix}_data": parts.data,
        f"{prefix}_indices": parts.indices,
        f"{prefix}_indptr": parts.indptr,
        f"{prefix}_shape": np.array(parts.shape),
    }


def test_dense_features_edges_and_labels(stored):
    graph = stored()
    assert graph.x.tolist() == X.tolist()
    assert graph.x.dtype == np.float32
    assert graph.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.y.tolist() == [0, 1, -1, 1]
    assert (graph.classes, graph.name, graph.ids.tolist()) == (2, "g", [0, 1, 2, 3])
    assert not (graph.train | graph.val | graph.test).any()
    assert stored(directed=True).edges.tolist() == EDGES.tolist()


def test_sparse_parts_stay_sparse(stored):
    adjacency = np.zeros((4, 4))
    adjacency[[0, 1], [1, 2]] = 1
    parts = csr_parts("attr", X) | csr_parts("adj", adjacency)
    graph = stored(x=None, edge_index=None, **parts)
    assert sparse.issparse(graph.x)
    assert graph.x.toarray().tolist() == X.tolist()
    assert graph.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_ids_owners_masks_and_class_names(stored):
    graph = stored(
        y=None,
        labels=Y.astype(float),
        edge_index=None,
        edges=EDGES,
        ids=np.array(["a", "b", "c", "d"]),
        owner=np.array(["south", "north", "south", "north"]),
        class_names=np.array(["ill", "well"]),
        train_mask=np.array([1, 0, 0, 0]),
        test_mask=np.array([False, True, False, True]),
    )
    assert graph.ids.tolist() == ["a", "b", "c", "d"]
    assert [(h.name, h.nodes.tolist()) for h in graph.holdings] == [
        ("north", [1, 3]),
        ("south", [0, 2]),
    ]
    assert graph.class_names == ("ill", "well")
    assert graph.train.tolist() == [True, False, False, False]
    assert graph.val.tolist() == [False] * 4
    assert graph.test.tolist() == [False, True, False, True]


def test_labels_as_text_are_numbered_in_order(stored):
    graph = stored(y=np.array(["well", "ill", "", "well"]))
    assert graph.class_names == ("ill", "well")
    assert graph.y.tolist() == [1, 0, -1, 1]


def test_nan_is_an_unknown_label(stored):
    assert stored(y=np.array([0, 1, np.nan, 1])).y.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": None}, " has no features: add 'x' or 'attr_data' (there is: edge_index, y)."),
        ({"edge_index": None},
         " has no edges: add 'edge_index' or 'edges' or 'adj_indices' (there is: x, y)."),
        ({"y": None}, " has no labels: add 'y' or 'labels' (there is: edge_index, x)."),
        ({"labels": Y}, " has both 'y' and 'labels'; keep one of them."),
        ({"edges": EDGES}, " has both 'edge_index' and 'edges'; keep one of them."),
        ({"attr_data": X}, " has both 'x' and 'attr_data'; keep one of them."),
        ({"x": None, "attr_data": X},
         " has no 'attr_indices'; a matrix in CSR form needs attr_data, attr_indices, attr_indptr "
         "and attr_shape."),
        ({"x": X[0]}, ": x has the shape (2,); it must have a row for each node and a column for "
         "each feature, at least one."),
        ({"x": np.where(X == 3, np.nan, X)},
         ": x[3, 0] is NaN, infinite or too large; fill or drop it before loading."),
        ({"x": X.astype(str)}, ": x holds <U32; features are real numbers."),
        ({"edge_index": EDGES.T[:1]},
         ": edge_index has the shape (1, 2); it must be [2, edges] of node numbers: transpose it."),
        ({"edge_index": np.zeros((3, 3), int)},
         ": edge_index has the shape (3, 3); it must be [2, edges] of node numbers: mend it."),
        ({"edge_index": EDGES + 0.5},
         ": edge_index holds float64; node numbers are whole numbers."),
        ({"edge_index": EDGES + 2},
         ": edge_index[1, 1] is 4, but nodes are numbered from 0 to 3; correct it or drop the "
         "edge."),
        ({"y": Y[:3]}, ": y has 3 entries for 4 nodes; give one per node, -1 for unknown."),
        ({"y": np.eye(4)},
         ": y has the shape (4, 4); it must hold one class for each node."),
        ({"y": np.array([0, 1, 0.5, 1])},
         ": y[2] is 0.5, which is no class; number the classes from 0 and write -1 for an unknown "
         "label."),
        ({"y": np.array([0, 1, -2, 1])},
         ": y[2] is -2, which is no class; number the classes from 0 and write -1 for an unknown "
         "label."),
        ({"y": np.full(4, -1)},
         ": no node has a label; label some, or there is nothing to learn."),
        ({"y": Y + 1j}, ": y holds complex128; labels are whole numbers or text."),
        ({"ids": np.array(["a", "b", "a", "c"])},
         ": ids[0] and ids[2] are both 'a'; give every node an id of its own."),
        ({"ids": np.arange(3)}, ": ids has the shape (3,) for 4 nodes; give one id per node."),
        ({"ids": np.arange(4.0)}, ": ids holds float64; ids are text or whole numbers."),
        ({"owner": np.array(["a", "", "a", "a"])},
         ": owner[1] is empty; give every node an owner."),
        ({"owner": np.arange(3)},
         ": owner has the shape (3,) for 4 nodes; give one owner per node."),
        ({"owner": np.ones(4)}, ": owner holds float64; owners are text or whole numbers."),
        ({"train_mask": np.ones((4, 2), bool)},
         ": train_mask has the shape (4, 2), several splits; choose one column of it."),
        ({"val_mask": np.ones(3, bool)},
         ": val_mask has 3 entries for 4 nodes; give one per node."),
        ({"val_mask": np.array([0, 1, 2, 3])}, ": val_mask must hold true or false only."),
        ({"test_mask": np.ones(4, bool)},
         ": test_mask[2] is true, but that node has no label; take it out of the mask."),
        ({"class_names": np.array(["ill"])},
         ": class_names has 1 different names, but labels go up to 1; name each class once."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(stored, arrays, said):
    assert complaint(stored, **arrays) == f"'g.npz'{said}"


def test_parts_that_do_not_fit_together(stored):
    parts = csr_parts("attr", X) | {"attr_indices": np.array([0, 1, 9])}
    said = complaint(stored, x=None, **parts)
    assert said.startswith(
        "'g.npz': attr_data, attr_indices, attr_indptr and attr_shape do not fit together as a CSR "
        "matrix ("
    )


def test_an_adjacency_that_is_not_square(stored):
    assert complaint(stored, edge_index=None, **csr_parts("adj", np.ones((4, 3)))) == (
        "'g.npz': adj has the shape (4, 3); it must have a row and a column for each node."
    )


def test_python_objects_are_not_loaded(stored):
    said = complaint(stored, y=np.array([0, 1, None, "x"], dtype=object))
    assert said.startswith(
        "'g.npz': 'y' is damaged or holds Python objects, which are not loaded ("
    )
    assert said.endswith("); save it as plain numbers or text.")


def test_a_damaged_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez_compressed("g.npz", x=np.random.default_rng(0).random((99, 9)))
    content = bytearray((tmp_path / "g.npz").read_bytes())
    content[200:260] = bytes(60)
    (tmp_path / "g.npz").write_bytes(content)
    with pytest.raises(AtollError, match=r"^'g.npz': 'x' is damaged or holds Python objects"):
        Npz(path="g.npz").load()


def test_wrong_paths_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npz").write_text("not arrays")
    np.save("one.npy", X)
    for path, said in {
        "": "data.path is not given; set it to the .npz file of your graph.",
        ".": "'.' (data.path) is a folder; name the .npz file in it.",
        "none.npz": "there is no file 'none.npz' (data.path); check the path.",
        "text.npz": "'text.npz' is not an .npz file of arrays; write it with "
        "numpy.savez_compressed.",
        "one.npy": "'one.npy' holds a single array; write all arrays into one file with "
        "numpy.savez_compressed.",
    }.items():
        with pytest.raises(AtollError) as problem:
            Npz(path=path).load()
        assert str(problem.value) == said


def test_a_small_file_of_more_zeros_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(user_npz, "memory", lambda: 2.0 * 2**20)
    np.savez_compressed(tmp_path / "g.npz", **PLAIN | {"x": np.zeros((4, 2**17))})
    assert (tmp_path / "g.npz").stat().st_size < 2**14
    with pytest.raises(AtollError, match="more than half of this machine's memory"):
        Npz(path=str(tmp_path / "g.npz")).load()
