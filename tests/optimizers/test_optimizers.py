import pytest
import torch

from atoll.errors import AtollError
from atoll.optimizers.adam import Adam
from atoll.optimizers.base import optimizers
from atoll.optimizers.descent import by_autograd, descend
from atoll.optimizers.sgd import SGD

TORCH = {
    "sgd": (SGD(lr=0.1, weight_decay=0.01, momentum=0.9), torch.optim.SGD,
            {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9}),
    "adam": (Adam(lr=0.1, weight_decay=0.01), torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.01}),
}  # fmt: skip


def losses(p, target_K):
    return ((p["w"] - target_K) ** 2).flatten(1).sum(1)


def test_every_optimizer_is_checked_against_torch():
    assert set(TORCH) == set(optimizers)


@pytest.mark.parametrize("name", TORCH)
def test_stacked_steps_equal_torch_client_by_client(name):
    ours, cls, options = TORCH[name]
    start, target = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    params, state, _ = descend(
        {"w": start.clone()}, by_autograd(lambda p: losses(p, target)), ours, {}, 7
    )
    for k in range(3):
        w = start[k].clone().requires_grad_()
        optimizer = cls([w], **options)
        for _ in range(7):
            optimizer.zero_grad()
            ((w - target[k]) ** 2).sum().backward()
            optimizer.step()
        torch.testing.assert_close(params["w"][k], w.detach(), rtol=0, atol=1e-12)
    assert all(leaf.shape[0] == 3 for leaf in state.values())


@pytest.mark.parametrize("name", TORCH)
def test_inactive_clients_keep_parameters_state_and_clock(name):
    optimizer = TORCH[name][0]
    target = torch.randn(3, 4)
    warm, state, _ = descend(
        {"w": torch.randn(3, 4)}, by_autograd(lambda p: losses(p, target)), optimizer, {}, 3
    )
    before = {n: leaf.clone() for n, leaf in (warm | state).items()}
    active = torch.tensor([True, False, True])
    after, state, _ = descend(
        warm, by_autograd(lambda p: losses(p, target)), optimizer, state, 2, active
    )
    for n, leaf in (after | state).items():
        assert torch.equal(leaf[1], before[n][1])
        assert not torch.equal(leaf[0], before[n][0])


def test_clients_with_different_clocks_match_clients_trained_alone():
    """A client that sat out has taken fewer steps: its bias correction is its own."""
    adam, target, start = Adam(lr=0.1), torch.randn(2, 3), torch.randn(2, 3)
    state = adam.init({"w": start})
    params = {"w": start.clone()}
    only_first = torch.tensor([True, False])
    params, state, _ = descend(
        params, by_autograd(lambda p: losses(p, target)), adam, state, 4, only_first
    )
    params, state, _ = descend(params, by_autograd(lambda p: losses(p, target)), adam, state, 3)
    assert state["steps"].tolist() == [7, 3]
    for k, steps in ((0, 7), (1, 3)):
        own = {"w": start[k : k + 1].clone()}
        alone, _, _ = descend(
            own, by_autograd(lambda p, k=k: losses(p, target[k : k + 1])), adam, {}, steps
        )
        torch.testing.assert_close(params["w"][k], alone["w"][0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("bad", [{"lr": 0.0}, {"weight_decay": -1.0}])
def test_impossible_settings_are_refused(bad):
    with pytest.raises(AtollError, match=next(iter(bad))):
        Adam(**bad)
