import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes

from atoll.methods.ppfl.procrustes import align, knn_precision, pairs, rotation


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def turned(d: int, seed: int) -> torch.Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(gaussian(d, d, seed=seed))[0]


def test_a_quarter_turn_is_found():
    """Three points in the plane, turned by 90 degrees: x goes to y, y to -x."""
    target = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    quarter = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    found = rotation(target @ quarter.T, target)
    torch.testing.assert_close(found, quarter)


@given(n=st.integers(6, 30), d=st.integers(1, 6), seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_it_is_what_scipy_finds(n, d, seed):
    source, target = gaussian(n, d, seed=seed), gaussian(n, d, seed=seed + 1)
    theirs, _ = orthogonal_procrustes(source.numpy(), target.numpy())
    torch.testing.assert_close(rotation(source, target), torch.from_numpy(theirs))


def test_with_fewer_nodes_than_dimensions_the_moved_nodes_are_still_determined():
    """Whatever scipy does with the directions that are left open, the nodes land there too."""
    source, target = gaussian(3, 8), gaussian(3, 8, seed=1)
    theirs, _ = orthogonal_procrustes(source.numpy(), target.numpy())
    found = rotation(source, target)
    torch.testing.assert_close(source @ found, source @ torch.from_numpy(theirs))
    torch.testing.assert_close((source @ found).norm(), source.norm())


def test_a_direction_the_target_lacks_is_dropped_not_turned_at_random():
    """The target is flat: its third coordinate is zero, so nothing says where ours should go."""
    source = gaussian(5, 3)
    target = source.clone()
    target[:, 2] = 0
    moved = source @ rotation(source, target)
    assert torch.linalg.matrix_rank(moved) == 2
    again = source[[4, 2, 0, 1, 3]] @ rotation(source[[4, 2, 0, 1, 3]], target[[4, 2, 0, 1, 3]])
    torch.testing.assert_close(again, moved[[4, 2, 0, 1, 3]])


def test_turned_copies_average_to_themselves_in_every_space():
    common = gaussian(12, 4)
    spaces = [common @ turned(4, seed) for seed in range(3)]
    found = align(spaces, [np.arange(12)] * 3, neighbours=(1, 5))
    for mean, own in zip(found.means, spaces, strict=True):
        torch.testing.assert_close(mean, own)
    assert found.precision.tolist() == [1.0, 1.0]


def test_the_mean_is_that_of_algorithm_1():
    """Four clients with all nodes in common: 1/k (sum_j X_ji + X_i), written out for client 2."""
    x = [gaussian(9, 3, seed=s) for s in range(4)]
    found = align(x, [np.arange(9)] * 4)
    by_hand = x[2].numpy().copy()
    for j in (0, 1, 3):
        w, _ = orthogonal_procrustes(x[j].numpy(), x[2].numpy())
        by_hand += x[j].numpy() @ w
    torch.testing.assert_close(found.means[2], torch.from_numpy(by_hand / 4))


def test_each_node_is_averaged_over_those_who_hold_it():
    """0 and 1 share nodes 5 and 7, in different rows; 2 shares nothing and keeps what it has."""
    x = [
        torch.tensor([[2.0], [4.0], [9.0]]),
        torch.tensor([[6.0], [8.0]]),
        torch.tensor([[3.0]]),
    ]
    found = align(x, [np.array([5, 7, 1]), np.array([7, 5]), np.array([2])], neighbours=(1,))
    # In one dimension W is 1: node 5 has 2 and 8, node 7 has 4 and 6, node 1 has 9 alone.
    assert found.means[0].flatten().tolist() == [5.0, 5.0, 9.0]
    assert found.means[1].flatten().tolist() == [5.0, 5.0]
    assert found.means[2].flatten().tolist() == [3.0]
    assert all(mean.dtype == torch.float32 for mean in found.means)


def test_clients_that_share_nothing_are_left_as_they_are():
    x = [gaussian(2, 3), gaussian(0, 3)]
    found = align(x, [np.array([0, 1]), np.zeros(0, dtype=np.int64)], neighbours=(1, 5))
    torch.testing.assert_close(found.means[0], x[0])
    assert found.means[1].shape == (0, 3)
    assert found.precision.tolist() == [0.0, 0.0]


def test_precision_counts_who_finds_itself():
    """On a line: the first two sit on themselves, the third has slipped past the first two."""
    target = torch.tensor([[0.0], [1.0], [5.0]])
    moved = torch.tensor([[0.1], [0.9], [-1.0]])
    assert knn_precision(moved, target, (1, 2, 3)) == pytest.approx([2 / 3, 2 / 3, 1.0])


def test_precision_in_slices_is_the_same(monkeypatch):
    target, moved = gaussian(40, 3), gaussian(40, 3, seed=1)
    whole = knn_precision(moved, target, (5, 10))
    monkeypatch.setattr("atoll.methods.ppfl.procrustes._PAIRS_AT_ONCE", 120)
    assert 0 < whole[0] < whole[1] < 1
    assert knn_precision(moved, target, (5, 10)) == whole


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_decide_between_nodes_with_one_embedding(dtype):
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(40, 16, generator=generator, dtype=dtype)
    target[1::2] = target[::2]  # twins
    nudge = torch.finfo(dtype).eps * (2 * torch.rand(40, 16, generator=generator) - 1)
    assert knn_precision(target.double(), target * (1 + nudge).to(dtype), (1,)) == [1.0]


def test_pairs_are_ordered_and_name_both_sides_rows():
    found = pairs([np.array([3, 8, 4]), np.array([4, 3])])
    assert [(i, j) for i, j, _, _ in found] == [(0, 1), (1, 0)]
    _, _, here, there = found[0]
    assert (here.tolist(), there.tolist()) == ([0, 2], [1, 0])
