"""Training steps whose gradients are written out, beside automatic differentiation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll import kernels
from atoll.cohort import Cohort
from atoll.graph import make_graph
from atoll.models.gcn import GCN
from atoll.ops.own_rows import OwnRows, Places, spread
from atoll.ops.written_out import ProductGradient, differentiated_once
from atoll.optimizers.adam import Adam
from atoll.optimizers.fit import Pull, fit
from atoll.rng import CohortRng
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated, sq_dist

pytest.importorskip("numba")
FEATURES, CLASSES, K = 60, 3, 4


def graph(number: int, dense: bool):
    """A ring of some nodes, each with two of the words that its client uses."""
    rng = np.random.default_rng(number)
    n = 12 + 3 * number
    x = np.zeros((n, FEATURES), dtype=np.float64)
    words = rng.choice(FEATURES, size=18, replace=False)
    for row in x:
        row[rng.choice(words, size=2, replace=False)] = 1.0
    if dense:
        x = rng.standard_normal((n, 20))
    ring = np.arange(n)
    edges = np.stack([np.r_[ring, (ring + 1) % n], np.r_[(ring + 1) % n, ring]])
    made = make_graph(
        x if dense else sparse.csr_array(x), edges, rng.integers(0, CLASSES, n), classes=CLASSES
    )
    train = np.zeros(n, dtype=bool)
    train[:5] = True
    return replace(made, train=train, val=~train)


def cohort(dense: bool = False, dtype: torch.dtype = torch.float64) -> Cohort:
    return Cohort([graph(number, dense) for number in range(K)], dtype=dtype)


def first(model: GCN, on: Cohort):
    params = model.init(on.features, CLASSES, np.random.default_rng(0))
    return replicated({name: p.to(on.dtype) for name, p in params.items()}, on.k)


@pytest.mark.parametrize("head", ["linear", "graph"])
@pytest.mark.parametrize("dropout", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_losses_and_gradients_are_those_of_autograd(head, dropout, dense, class_weight):
    on = cohort(dense)
    model = GCN(hidden=20, head=head, dropout=dropout)
    task = NodeClassification(class_weight=class_weight)
    params, count_K = first(model, on), torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=on.dtype)

    def slope(on_kernels: bool):
        leaves = {name: p.clone().requires_grad_() for name, p in params.items()}
        rng = CohortRng(0, on.clients, 1, "train#0")
        with kernels.switched(on_kernels), differentiated_once():
            loss_K = task.training_loss(model, leaves, on, rng)
            grads = torch.autograd.grad((loss_K * count_K).sum(), list(leaves.values()))
        return loss_K.detach(), *grads

    assert task.written_out(model, params, on) is not None
    for ours, autograds in zip(slope(True), slope(False), strict=True):
        torch.testing.assert_close(ours, autograds, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("hidden", [3, 20])
def test_own_rows_that_begin_alike_are_trained_as_by_torch(hidden, weight_decay, epochs):
    on = cohort()
    model, task, adam = GCN(hidden=hidden), NodeClassification(), Adam(weight_decay=weight_decay)
    places = on.inputs.places
    assert isinstance(places, Places)

    def trained(on_kernels: bool):
        params = first(model, on)
        params["conv1.weight"] = spread(params["conv1.weight"][0], places)
        rng = CohortRng(0, on.clients, 1, "train#0")
        with kernels.switched(on_kernels):
            found = fit(task, model, adam, params, on, epochs=epochs, rng=rng)
            return fit(
                task, model, adam, found.params_K, on, epochs=1, rng=rng, state_K=found.state_K
            )

    ours, torchs = trained(True), trained(False)
    torch.testing.assert_close(ours.loss_K, torchs.loss_K, rtol=0, atol=1e-10)
    for name, p in ours.params_K.items():
        torch.testing.assert_close(
            p.contiguous(), torchs.params_K[name].contiguous(), rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("on_kernels", [True, False])
def test_a_pull_on_own_rows_is_the_penalty_on_whole_stacks(on_kernels, epochs, weight_decay):
    """Rows that are nobody's own are pulled at as well, where weight decay moves them."""
    on, model, task, mu = cohort(), GCN(hidden=20), NodeClassification(), 3.0
    sent, free = first(model, on), "conv2.bias"
    towards = {name: p[0].expand_as(p) for name, p in sent.items() if name != free}

    def trained(**how):
        params = {name: p.clone() for name, p in sent.items()}
        if "pull" in how:
            params["conv1.weight"] = spread(params["conv1.weight"][0], on.inputs.places)
        rng, adam = CohortRng(0, on.clients, 1, "train#0"), Adam(weight_decay=weight_decay)
        with kernels.switched(on_kernels):
            return fit(task, model, adam, params, on, epochs=epochs, rng=rng, **how)

    pulled = trained(pull=Pull(mu, towards))
    held = trained(
        penalty=lambda w: mu / 2 * sq_dist({n: p for n, p in w.items() if n != free}, towards)
    )
    stack = pulled.params_K["conv1.weight"]
    assert isinstance(stack, OwnRows)
    assert stack.compact
    torch.testing.assert_close(pulled.loss_K, held.loss_K, rtol=0, atol=1e-10)
    for name, p in pulled.params_K.items():
        torch.testing.assert_close(p.contiguous(), held.params_K[name], rtol=0, atol=1e-9)


def test_a_gradient_that_is_made_after_all_writes_its_rows_first():
    on, model = cohort(), GCN(hidden=20, dropout=0.0)
    params = first(model, on)
    stack = spread(params["conv1.weight"][0], on.inputs.places)
    found = NodeClassification().written_out(model, params | {"conv1.weight": stack}, on)
    assert found is not None
    grad = found[1](torch.ones(K, dtype=on.dtype))["conv1.weight"]
    assert isinstance(grad, ProductGradient)
    assert stack.alike
    assert grad.made().shape == stack.own.shape
    assert torch.equal(stack.in_full(), params["conv1.weight"])


@pytest.mark.parametrize("bits", [np.uint8, np.uint16])
def test_streams_give_the_same_numbers_whoever_draws(bits):
    counts = [3, 0, 40, 17]

    def drawn(on_kernels: bool):
        rng = CohortRng(7, (4, 9, 2, 30), 3, "train#0")
        with kernels.switched(on_kernels):
            parts = [rng.raw(counts, bits), rng.raw(counts, bits)]
            parts.append(np.array([stream.random() for stream in rng.streams]))
            return [*parts, rng.raw(counts, bits)]

    for ours, numpys in zip(drawn(True), drawn(False), strict=True):
        assert np.array_equal(ours, numpys)


def test_what_is_not_a_number_stays_in_the_loss():
    on, model = cohort(), GCN(hidden=20)
    params = first(model, on)
    params["conv1.bias"][1, 0] = torch.nan
    loss_K, _ = NodeClassification().written_out(model, params, on)
    assert loss_K.isnan().tolist() == [False, True, False, False]


def test_losses_can_be_differentiated_twice_unless_somebody_says_that_nobody_does():
    on, model, task = cohort(), GCN(hidden=20, dropout=0.0), NodeClassification()
    leaves = {name: p.requires_grad_() for name, p in first(model, on).items()}
    loss = task.training_loss(model, leaves, on).sum()
    (grad,) = torch.autograd.grad(loss, leaves["conv2.weight"], create_graph=True)
    assert grad.requires_grad
    with differentiated_once():
        loss = task.training_loss(model, leaves, on).sum()
    with pytest.raises(RuntimeError, match="can't be differentiated again"):
        torch.autograd.grad(loss, leaves["conv2.weight"], create_graph=True)
