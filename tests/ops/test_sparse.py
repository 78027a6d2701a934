import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.ops.sparse import Sparse, block_diagonal, gcn_operator, mean_operator

# 0 - 1 - 2
PATH = sparse.csr_array(np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]))


def test_gcn_operator_of_a_path_of_three():
    # Degrees with loops are 2, 3, 2.
    a, b = 1 / 2, 1 / 6**0.5
    expected = [[a, b, 0], [b, 1 / 3, b], [0, b, a]]
    np.testing.assert_allclose(gcn_operator(PATH).toarray(), expected)


def test_mean_operator_leaves_an_isolated_node_at_zero():
    lonely = sparse.csr_array(np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    np.testing.assert_array_equal(mean_operator(lonely).toarray(), lonely.toarray())
    np.testing.assert_array_equal(mean_operator(PATH).toarray()[1], [0.5, 0, 0.5])


def test_block_diagonal_equals_scipys():
    blocks = [sparse.random_array((n, m), density=0.4, rng=n, format="csr") for n, m in
              ((3, 2), (1, 4), (5, 5))]  # fmt: skip
    expected = sparse.block_diag(blocks).toarray()
    np.testing.assert_array_equal(block_diagonal(blocks).toarray(), expected)
    assert block_diagonal(blocks[:1]) is blocks[0]


@pytest.mark.parametrize("symmetric", [False, True])
def test_product_and_its_gradients_of_both_orders(symmetric):
    matrix = sparse.random_array((6, 6 if symmetric else 4), density=0.5, rng=1, format="csr")
    if symmetric:
        matrix = sparse.csr_array(matrix + matrix.T)
    constant = Sparse(matrix, torch.float64, symmetric=symmetric)
    dense = torch.randn(matrix.shape[1], 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(constant @ dense, torch.from_numpy(matrix.toarray()) @ dense)
    assert torch.autograd.gradcheck(lambda d: constant @ d, dense)
    assert torch.autograd.gradgradcheck(lambda d: (constant @ d).tanh(), dense)


def test_product_does_not_show_what_was_in_memory():
    # An empty row must come out as zero even though the result starts uninitialised.
    hollow = Sparse(sparse.csr_array((2, 2)), torch.float32)
    for _ in range(20):
        torch.full((2, 8), float("nan"))
        assert torch.equal(hollow @ torch.ones(2, 8), torch.zeros(2, 8))


def test_indices_are_32_bit_and_the_transpose_of_the_transpose_is_the_matrix():
    matrix = Sparse(PATH, torch.float32)
    assert matrix.csr.crow_indices().dtype == torch.int32
    assert matrix.t.t is matrix


@pytest.mark.parametrize("symmetric", [False, True])
def test_some_rows_of_a_matrix(symmetric):
    some = Sparse(PATH, torch.float64, symmetric=symmetric).at(torch.tensor([1, 2]))
    assert some.csr.to_dense().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert some.t.csr.to_dense().tolist() == [[1, 0], [0, 1], [1, 0]]
