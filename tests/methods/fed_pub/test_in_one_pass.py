"""Local training in one pass over weights and masks, beside the objective that it stands for."""

import numpy as np
import pytest
import torch
from scipy import sparse
from support import make, train

from atoll import kernels
from atoll.methods.fed_pub import in_one_pass
from atoll.models.gcn import GCN
from atoll.ops.sparse import Sparse
from atoll.optimizers.adam import Adam
from atoll.optimizers.sgd import SGD
from small_federations import community_parties

pytestmark = pytest.mark.skipif(not kernels.installed(), reason="kernels are off")
DTYPES = (torch.float32, torch.float64)
PULL, SHRINK, THRESHOLD, STEP = 0.3, 0.05, 0.4, 3


@pytest.mark.parametrize("name", ["fed-pub", "fed-pub-as-published"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"epochs": 3, "threshold": 0.99},
        {"l1_norm": "sum", "l1": 0.01, "proximal": 0.1},
        {"keep_optimizer": False},
        {"model": GCN(hidden=20, head="graph", bias=True)},
        {"model": GCN(hidden=7)},
    ],
)
def test_it_gives_what_the_objective_gives(name, options, monkeypatch):
    if name == "fed-pub-as-published":
        options = {n: v for n, v in options.items() if n not in ("l1_norm", "l1", "proximal")}
    passes = []
    original = in_one_pass.Trained
    monkeypatch.setattr(in_one_pass, "Trained", lambda *parts: passes.append(1) or original(*parts))
    found = []
    for on in (True, False):
        with kernels.switched(on):
            found.append(train(make(name, **options), community_parties(), rounds=3))
    assert len(passes) == 3
    ours, torchs = ({**outcome.server, **outcome.clients} for outcome in found)
    assert set(ours) == set(torchs)
    for leaf, values in ours.items():
        torch.testing.assert_close(values, torchs[leaf], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"masks": False}, {"optimizer": SGD(lr=0.1)}, {"model": GCN(hidden=7, bias=False)}]
)
def test_what_it_cannot_do_goes_the_other_way(options, monkeypatch):
    def never(*_):
        raise AssertionError("trained in one pass")

    monkeypatch.setattr(in_one_pass, "Trained", never)
    train(make("fed-pub", **options), community_parties(), rounds=1)


def _numbers(width, dtype):
    """Stacks of rows with others before and behind, and what a gradient is made of."""
    rng = torch.Generator().manual_seed(width)
    wide = torch.randn(9, 30, width, dtype=dtype, generator=rng)
    wide[5], wide[7] = wide[5].abs(), wide[7].abs()  # squares
    wide[3, 12] = 0.0  # masks that have no sign
    matrix = sparse.random_array((20, 8), density=0.3, format="csr", rng=np.random.default_rng(0))
    return wide, Sparse(matrix, dtype), torch.randn(8, width, dtype=dtype, generator=rng)


def _by_torch(wide, grad):
    """The same step by automatic differentiation and torch's Adam."""
    source, given, _, mask, mean_w, square_w, mean_mask, square_mask, _ = wide[:, 5:25].clone()
    w, mask = source.clone().requires_grad_(), mask.clone().requires_grad_()
    theta = w * mask
    loss = (theta * grad).sum() + PULL / 2 * (theta - given).square().sum()
    grads = torch.autograd.grad(loss + SHRINK * mask.abs().sum(), [w, mask])
    params = {"0.a": w.detach(), "1.a": mask.detach()}
    state = {"mean.0.a": mean_w, "square.0.a": square_w, "mean.1.a": mean_mask}
    state |= {"square.1.a": square_mask, "steps": torch.full((20,), float(STEP - 1))}
    adam = Adam(weight_decay=1e-2)
    with kernels.switched(False):
        adam.step(params, dict(zip(params, grads, strict=True)), state)
    w, mask = params.values()
    kept = mask.abs() >= THRESHOLD
    return (w, mask, mean_w, square_w, mean_mask, square_mask, w * mask * kept), kept


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 3, 7, 16, 17, 40, 128])
@pytest.mark.parametrize("as_product", [False, True])
def test_a_step_moves_its_own_rows_and_no_others(width, dtype, as_product):
    wide, matrix, errors = _numbers(width, dtype)
    before, grad = wide.clone(), matrix @ errors
    flags = torch.ones(30, width, dtype=torch.bool)
    rows = [stack[5:25].reshape(-1).numpy() for stack in wide]
    assert all(np.shares_memory(row, stack.numpy()) for row, stack in zip(rows, wide, strict=True))
    product = (*matrix.arrays, errors.numpy(), np.empty((0, width), dtype=errors.numpy().dtype))
    nothing = np.zeros(0, dtype=np.int32)
    plain = (nothing, nothing, errors.numpy()[:0, 0], errors.numpy()[:0], grad.numpy())
    kernels.kernels("masks").adam_of_masked(
        *(product if as_product else plain), tuple(rows), flags[5:25].reshape(-1).numpy(),
        PULL, SHRINK, THRESHOLD, *Adam(weight_decay=1e-2).settings, STEP, 0, 20,
    )  # fmt: skip
    stacks, kept = _by_torch(before, grad)
    near = {"rtol": 1e-5, "atol": 1e-5} if dtype == DTYPES[0] else {"rtol": 1e-12, "atol": 1e-12}
    for ours, torchs in zip(wide[2:, 5:25], stacks, strict=True):
        torch.testing.assert_close(ours, torchs, **near)
    assert torch.equal(flags[5:25], kept)
    assert flags[:5].all()
    assert flags[25:].all()
    assert torch.equal(wide[:, :5], before[:, :5])
    assert torch.equal(wide[:, 25:], before[:, 25:])
    assert torch.equal(wide[:2], before[:2])
