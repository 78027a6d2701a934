"""Compiled kernels beside the torch operations that they stand for."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll import kernels
from atoll.kernels import sharing
from atoll.ops.features import same_features_times
from atoll.ops.ragged_product import outer, ragged_product
from atoll.ops.similarity import weighted_sum
from atoll.ops.sparse import Sparse
from atoll.optimizers.adam import Adam
from atoll.tasks.metrics import NO_SCORE, Cells

pytest.importorskip("numba")
TERMS_AT_ONCE = kernels.kernels("ragged").TERMS_AT_ONCE
DTYPES = (torch.float32, torch.float64)
WIDTHS = (7, 16, 17, 40, 64, 100, 128, 200)


def close(dtype: torch.dtype) -> dict[str, float]:
    return (
        {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    )


def both(compute):
    """What is computed with kernels and without."""
    found = []
    for on in (True, False):
        with kernels.switched(on):
            found.append(compute())
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_sparse_products_and_their_gradients(width, dtype):
    rng = np.random.default_rng(0)
    matrix = Sparse(sparse.random_array((30, 50), density=0.2, format="csr", rng=rng), dtype)
    x = torch.randn(50, width, dtype=dtype, requires_grad=True)

    def compute():
        made = matrix @ x
        return made.detach(), *torch.autograd.grad(made.square().sum(), x)

    for ours, torchs in zip(*both(compute), strict=True):
        torch.testing.assert_close(ours, torchs, **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 3, *WIDTHS])
def test_a_sparse_product_writes_its_own_rows_and_no_others(width, dtype):
    rng = np.random.default_rng(0)
    matrix = Sparse(sparse.random_array((30, 50), density=0.2, format="csr", rng=rng), dtype)
    x = torch.randn(50, width, dtype=dtype)
    around = torch.full((70, width), 7.0, dtype=dtype)
    out = around[20:50]
    kernels.kernels("sparse").csr_product(*matrix.arrays, x.numpy(), out.numpy(), 0, 30)
    with kernels.switched(False):
        torch.testing.assert_close(out, matrix @ x, **close(dtype))
    assert (around[:20] == 7).all()
    assert (around[50:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_products_of_clients_of_all_sizes(width, dtype):
    torch.manual_seed(0)
    sizes = (0, 1, 5, 6, 13, 33, 64, 100)
    h = torch.randn(sum(sizes), 24, dtype=dtype, requires_grad=True)
    w = torch.randn(len(sizes), 24, width, dtype=dtype, requires_grad=True)

    def compute():
        made = ragged_product(h, w, sizes)
        return made.detach(), *torch.autograd.grad(made.square().sum(), [h, w])

    for ours, torchs in zip(*both(compute), strict=True):
        torch.testing.assert_close(ours, torchs, **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [0, 1, 5, 6, 13])
@pytest.mark.parametrize("width", [3, 64, 150])
def test_the_same_rows_times_the_weights_of_each_client(rows, width, dtype):
    x, weight_K = torch.randn(rows, 9, dtype=dtype), torch.randn(4, 9, width, dtype=dtype)
    made, expected = both(lambda: same_features_times(x, weight_K))
    torch.testing.assert_close(made, expected, **close(dtype))
    torch.testing.assert_close(made, torch.cat([x @ w for w in weight_K]), **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_over_more_rows_than_are_added_up_at_once(dtype):
    sizes = (3, 9 * TERMS_AT_ONCE, 0, TERMS_AT_ONCE + 1)
    h, g = (torch.randn(sum(sizes), width, dtype=dtype) for width in (20, 7))
    ours, torchs = both(lambda: outer(h, g, sizes))
    torch.testing.assert_close(
        ours, torchs, rtol=1e-4, atol=1e-3 if dtype == torch.float32 else 1e-10
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_adam_with_everybody_and_with_some(dtype):
    torch.manual_seed(0)
    start = torch.randn(3, 5, 7, dtype=dtype)
    grads = [torch.randn(3, 5, 7, dtype=dtype) for _ in range(4)]
    takers = [None, torch.tensor([True, False, True]), None, None]
    adam = Adam(weight_decay=1e-2)

    def compute():
        params = {"w": start.clone()}
        state = adam.init(params)
        for grad, active in zip(grads, takers, strict=True):
            adam.step(params, {"w": grad}, state, active)
        return params | state

    ours, torchs = both(compute)
    for name, values in ours.items():
        torch.testing.assert_close(values, torchs[name], rtol=0, atol=1e-6)


def test_seeds_are_those_of_numpy():
    entropy = np.random.default_rng(0).integers(0, 2**32, (20, 4), dtype=np.uint32)
    entropy[:2] = [[0] * 4, [2**32 - 1] * 4]
    ours = kernels.kernels("draws").seeds(entropy)
    numpys = [np.random.SeedSequence(row.tolist()).generate_state(3, np.uint64) for row in entropy]
    assert np.array_equal(ours, np.stack(numpys))


def test_work_that_is_shared_gives_the_same_bytes(monkeypatch):
    monkeypatch.setattr(sharing, "ENOUGH", 0)
    rng = np.random.default_rng(0)
    matrix = Sparse(sparse.random_array((90, 50), density=0.2, format="csr", rng=rng), DTYPES[0])
    x, h, w = torch.randn(50, 32), torch.randn(30, 24), torch.randn(5, 24, 40)

    def compute():
        params = {"w": w.clone()}
        adam = Adam()
        adam.step(params, {"w": w}, adam.init(params))
        return matrix @ x, ragged_product(h, w, (3, 9, 0, 8, 10)), params["w"]

    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(compute())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, three) for one, three in zip(*found, strict=True))


def test_what_a_kernel_cannot_take_is_left_to_torch():
    x = torch.ones(4, 16)
    assert kernels.fit(x)
    assert not kernels.fit(x.t())
    assert not kernels.fit(x.to(torch.complex64))
    assert not kernels.fit(x, x.double())
    with kernels.switched(False):
        assert not kernels.fit(x)
    with torch.device("cpu"):  # somebody listens
        assert not kernels.fit(x)


def loaded(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_switch_of_the_environment():
    code = "from atoll import kernels; print(kernels.in_use())"
    assert loaded(code, ATOLL_KERNELS="0") == "False"
    assert loaded(code, ATOLL_KERNELS="1") == "True"


def test_listing_loads_no_compiler():
    code = (
        "import sys; from typer.testing import CliRunner; from atoll.cli import app\n"
        "done = CliRunner().invoke(app, ['list', 'methods'])\n"
        "print('fed-avg' in done.output, 'numba' in sys.modules, 'torch' in sys.modules)"
    )
    assert loaded(code) == "True False False"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 40, 17), (3, 5), (3,), (3, 2, 64)])
def test_weighted_sums_over_clients(shape, dtype):
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal(shape)).to(dtype)
    weight_K = torch.tensor([2.0, 0.0, 5.0], dtype=torch.float64)
    found, wanted = both(lambda: weighted_sum(weight_K, values))
    assert found.shape == wanted.shape == shape[1:]
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(found, 2 * values[0] + 5 * values[2])


@pytest.mark.parametrize("shape", [(0, 4, 32), (0, 3), (3, 0, 5)])
def test_a_weighted_sum_of_nothing_is_zero(shape):
    found = weighted_sum(torch.ones(shape[0], dtype=torch.float64), torch.ones(shape))
    assert found.shape == shape[1:]
    assert not found.any()


def test_a_weighted_sum_shows_what_is_no_number():
    values = torch.ones(3, 32)
    values[1, 7] = torch.nan
    assert weighted_sum(torch.ones(3, dtype=torch.float64), values).isnan().sum() == 1


@pytest.mark.parametrize("positive", [-1, 0, 2])
def test_figures_of_confusion_tables(positive):
    """Cells that lack a class, that lack all, and classes that nobody is taken for."""
    rng = np.random.default_rng(1)
    y, cell = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    y[cell == 1] = 1
    cells = Cells(y, cell, 6, 4, (0, 1, 2))
    guess = np.where(rng.random(60) < 0.5, y, rng.integers(0, 3, 60))
    found, wanted = both(lambda: cells.extended(guess, None, positive, 0.9))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert (found[:4, 0] > 0).all()
    assert (found[4:] == NO_SCORE).all()
