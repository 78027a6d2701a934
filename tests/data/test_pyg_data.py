"""A torch_geometric Data, or anything that looks like one, as a dataset."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse

import atoll
from atoll.data import from_pyg
from atoll.errors import AtollError

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])


def data(**changed):
    """0 - 1 - 2 with two features."""
    parts = {
        "x": X,
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "y": torch.tensor([0, 1, -1]),
        "train_mask": torch.tensor([True, False, False]),
        "test_mask": torch.tensor([False, True, False]),
    }
    return SimpleNamespace(**(parts | changed))


def test_tensors_become_a_graph():
    graph = from_pyg(data(), ids=["a", "b", "c"], owner=[1, 0, 1], class_names=["no", "yes"]).load()
    assert graph.x.tolist() == X.tolist()
    assert graph.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.y.tolist() == [0, 1, -1]
    assert graph.train.tolist() == [True, False, False]
    assert graph.val.tolist() == [False, False, False]
    assert graph.test.tolist() == [False, True, False]
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert [(h.name, h.nodes.tolist()) for h in graph.holdings] == [("0", [1]), ("1", [0, 2])]
    assert graph.class_names == ("no", "yes")


def test_a_directed_graph():
    assert from_pyg(data(), directed=True).load().edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "scipy"])
def test_sparse_features_stay_sparse(layout):
    x = {
        "coo": X.to_sparse_coo,
        "csr": X.to_sparse_csr,
        "csc": X.to_sparse_csc,
        "scipy": lambda: sparse.coo_array(X.numpy()),
    }[layout]()
    graph = from_pyg(data(x=x)).load()
    assert sparse.issparse(graph.x)
    assert graph.x.nnz == 2
    assert graph.x.toarray().tolist() == X.tolist()


def test_a_column_of_labels_and_gradients_on_features():
    graph = from_pyg(data(y=torch.tensor([[0], [1], [-1]]), x=X.clone().requires_grad_())).load()
    assert graph.y.tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"x": None}, " has no 'x'; set data.x first."),
        ({"edge_index": None}, " has no 'edge_index'; set data.edge_index first."),
        ({"y": None}, " has no 'y'; set data.y first."),
        (
            {"y": torch.tensor([0, 1])},
            ": y has 2 entries for 3 nodes; give one per node, -1 for unknown.",
        ),
        (
            {"y": torch.eye(3)},
            ": y has the shape (3, 3); it must hold one class for each node.",
        ),
        (
            {"edge_index": torch.tensor([[0], [3]])},
            ": edge_index[1, 0] is 3, but nodes are numbered from 0 to 2; correct it or drop the "
            "edge.",
        ),
        (
            {"val_mask": torch.ones(3, 20, dtype=torch.bool)},
            ": val_mask has the shape (3, 20), several splits; choose one column of it.",
        ),
        (
            {"x": X.clone().fill_diagonal_(float("nan"))},
            ": x[0, 0] is NaN, infinite or too large; fill or drop it before loading.",
        ),
    ],
)
def test_what_is_wrong_is_named(changed, said):
    with pytest.raises(AtollError) as problem:
        from_pyg(data(**changed))
    assert str(problem.value) == f"the PyG data{said}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_real_pyg_data_trains(tmp_path):
    from torch_geometric.data import Data

    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    linked = np.argwhere(rng.random((40, 40)) < np.where(y[:, None] == y, 0.3, 0.02)).T
    noisy = torch.tensor(y[:, None] + 0.3 * rng.standard_normal((40, 3)), dtype=torch.float32)
    given = from_pyg(Data(x=noisy, edge_index=torch.tensor(linked), y=torch.tensor(y)))
    result = atoll.run(data=given, partition="random", clients=2, rounds=20, out=tmp_path / "run")
    assert result.test_accuracy > 0.8
