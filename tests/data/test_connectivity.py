import numpy as np
import pytest
from scipy import sparse

from atoll.data import connectivity as module
from atoll.data.connectivity import connectivity
from atoll.errors import AtollError


def network(n: int, pairs: list[tuple[int, int]]) -> sparse.csr_array:
    rows, columns = np.array(pairs).T
    half = sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=(n, n))
    return half + half.T


def by_definition(a: sparse.csr_array) -> float:
    n = a.shape[0]
    laplacian = np.diag(a.sum(axis=1)) - a.toarray()
    b = np.eye(n) / n - np.ones((n, n)) / n**2
    return float(np.linalg.eigvals(b @ np.linalg.pinv(laplacian)).real.max())


def test_a_path_of_three():
    # The Laplacian's eigenvalues are 0, 1 and 3, so the value is 1 / (3 * 1).
    assert connectivity(network(3, [(0, 1), (1, 2)])) == pytest.approx(1 / 3)


def test_a_complete_graph_is_best():
    # Eigenvalues 0 and 4 (three times): 1 / (4 * 4).
    pairs = [(i, j) for i in range(4) for j in range(i)]
    assert connectivity(network(4, pairs)) == pytest.approx(1 / 16)


def test_it_is_what_the_paper_defines():
    rng = np.random.default_rng(0)
    ring = [(i, (i + 1) % 30) for i in range(30)]
    chords = [(int(i), int(j)) for i, j in rng.integers(30, size=(20, 2)) if abs(i - j) > 1]
    a = (network(30, ring + chords) > 0).astype(float)
    assert connectivity(a) == pytest.approx(by_definition(a))


def test_large_networks_need_no_dense_matrix(monkeypatch):
    ring = network(300, [(i, (i + 7) % 300) for i in range(300)])
    dense = connectivity(ring)
    monkeypatch.setattr(module, "_DENSE_UP_TO", 10)
    assert connectivity(ring) == pytest.approx(dense, rel=1e-6)


def test_a_network_in_pieces_has_none():
    with pytest.raises(AtollError, match="4 nodes in 2 components"):
        connectivity(network(4, [(0, 1), (2, 3)]))
