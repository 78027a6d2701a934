import numpy as np
import pytest
import torch
from scipy import sparse

from atoll import kernels
from atoll.methods.fed_sage_plus.nearest import columns, from_nearest
from small_federations import path_graph


def nodes(x):
    """A graph of nodes with these features, sparse ones or not."""
    graph = path_graph(np.zeros((x.shape[0], 1)), [0] * x.shape[0])
    object.__setattr__(graph, "x", x)
    return graph


def gradient(graph, rows):
    return from_nearest(graph, rows, columns(rows[None])[0], torch.empty_like(rows))


@pytest.mark.parametrize("on_kernels", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_gradient_points_away_from_the_nearest_node(form, on_kernels):
    graph = nodes(form(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]])))
    rows = torch.tensor([[1.25, 0.5], [1.75, 0.5], [0.5, 2.75]])
    with kernels.switched(on_kernels):
        found = gradient(graph, rows)
    assert found.tolist() == [[2.5, 1.0], [-2.5, 1.0], [1.0, -4.5]]


@pytest.mark.parametrize("on_kernels", [True, False])
def test_of_two_nodes_equally_near_the_first_one_counts(on_kernels):
    graph = nodes(sparse.csr_array(np.array([[9.0], [1.0], [-1.0], [1.0]])))
    with kernels.switched(on_kernels):
        assert gradient(graph, torch.zeros(1, 1)).tolist() == [[-2.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_the_kernel_finds_what_torch_finds(rows, dtype):
    rng = np.random.default_rng(0)
    x = sparse.random_array((50, 30), density=0.2, format="csr", rng=rng)
    graph, points = nodes(x), torch.from_numpy(rng.standard_normal((rows, 30)))
    found = []
    for on in (True, False):
        with kernels.switched(on):
            found.append(gradient(graph, points.to(dtype)))
    assert torch.equal(*found)
