import numpy as np
import torch
from scipy import sparse

from atoll.ops.sparse import Sparse, block_diagonal, gcn_operator


def blocks() -> list[sparse.csr_array]:
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (0, 2), (4, 1), (3, 3)]
    return [sparse.csr_array(rng.random(shape) * (rng.random(shape) < 0.5)) for shape in shapes]


def test_blocks_lie_along_the_diagonal():
    packed = block_diagonal(blocks())
    expected = sparse.block_diag([b.toarray() for b in blocks()]).toarray()
    assert packed.indices.dtype == packed.indptr.dtype == np.int32
    assert np.array_equal(packed.toarray(), expected)


def test_gcn_operator_of_a_path():
    # 0 - 1 - 2 with loops: degrees 2, 3, 2.
    path = sparse.csr_array(np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    edge = 1 / np.sqrt(6)
    expected = [[1 / 2, edge, 0], [edge, 1 / 3, edge], [0, edge, 1 / 2]]
    assert np.allclose(gcn_operator(path).toarray(), expected)
    assert path.data.tolist() == [1.0] * 4, "the adjacency is left as it was"


def test_a_symmetric_matrix_is_its_own_transpose():
    matrix = sparse.csr_array(np.array([[0.0, 2.0], [2.0, 1.0]]))
    ours = Sparse(matrix, torch.float64, symmetric=True)
    assert ours.t is ours
    other = Sparse(sparse.csr_array(np.array([[0.0, 2.0]])), torch.float64)
    assert other.t.csr.to_dense().tolist() == [[0.0], [2.0]]
    assert other.t.t is other
