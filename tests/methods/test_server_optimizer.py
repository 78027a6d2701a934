"""The server's own optimizer, for every method with a global model."""

import signal
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
import torch
from support import NAMES, assert_same, assert_same_model, make, small_parties, train

from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import resolve
from atoll.experiment.runner import resume, run_experiment
from atoll.methods.base import Info, methods
from atoll.methods.global_model import GlobalModel
from atoll.methods.server_optimizer import first_moments, server_step
from atoll.optimizers.adam import Adam
from atoll.optimizers.sgd import SGD
from atoll.tree import under
from small_federations import community_parties

FAMILY = [name for name in NAMES if issubclass(methods[name], GlobalModel)]
ADAPTIVE = ("adam", "yogi", "adagrad")


@pytest.mark.parametrize("name", FAMILY)
def test_every_method_with_a_global_model_honours_it(name):
    """Half of the move in the first round; in the second, half of the first's is gone on with."""
    assert get_args(get_type_hints(methods[name])["server_optimizer"])
    parties = small_parties(name)
    options = {"server_optimizer": "avgm", "server_lr": 0.5, "server_beta1": 0.5}
    start = under(train(make(name), parties, rounds=0).server, "model")
    plain = under(train(make(name), parties, rounds=1).server, "model")
    first = train(make(name, **options), parties, rounds=1).server
    for n, x in start.items():
        torch.testing.assert_close(
            under(first, "model")[n], x + 0.5 * (plain[n] - x), rtol=0, atol=1e-12, msg=n
        )
        torch.testing.assert_close(
            under(first, "moments")[f"mean.{n}"], plain[n] - x, rtol=0, atol=1e-12, msg=n
        )
    second = train(make(name, **options), parties, rounds=2).server
    assert any(not torch.equal(second[m], first[m]) for m in first if m.startswith("moments/"))


@pytest.mark.parametrize("optimizer", ["avgm", *ADAPTIVE])
def test_two_steps_by_hand(optimizer):
    """One parameter at 1, moves of 0.2 and -0.1, lr 0.5, beta1 0.8, beta2 0.9, tau 0.1."""
    x = {"w": torch.tensor([1.0], dtype=torch.float64)}
    moments = first_moments(optimizer, x, tau=0.1)
    m, v, w = 0.0, 0.1**2, 1.0
    for d in (0.2, -0.1):
        move = {"w": torch.tensor([d], dtype=torch.float64)}
        x, moments = server_step(optimizer, x, move, moments, 0.5, 0.8, 0.9, 0.1)
        if optimizer == "avgm":
            m = 0.8 * m + d
            w += 0.5 * m
            continue
        m = 0.8 * m + 0.2 * d
        v = {
            "adam": 0.9 * v + 0.1 * d * d,
            "adagrad": v + d * d,
            "yogi": v - 0.1 * d * d * ((v > d * d) - (v < d * d)),
        }[optimizer]
        w += 0.5 * m / (v**0.5 + 0.1)
    assert x["w"].item() == pytest.approx(w, abs=1e-14)


def test_momentum_of_nothing_is_fed_avg():
    parties = community_parties()
    same = {"server_optimizer": "avgm", "server_lr": 1.0, "server_beta1": 0.0}
    assert_same_model(
        train(make("fed-avg"), parties).server, train(make("fed-avg", **same), parties).server
    )


def test_adam_without_moments_is_fed_avg_where_tau_is_large():
    """With no memory the step is ``lr d / (|d| + tau)``: d itself for lr = tau -> infinity, and a
    step of length lr in every coordinate, whatever d, for tau -> 0."""
    parties = community_parties()
    start, plain = (
        under(train(make("fed-avg"), parties, rounds=r).server, "model") for r in (0, 1)
    )
    none = {"server_optimizer": "adam", "server_beta1": 0.0, "server_beta2": 0.0}
    for tau in (1e2, 1e4):
        options = none | {"server_lr": tau, "server_tau": tau}
        found = under(train(make("fed-avg", **options), parties, rounds=1).server, "model")
        for n, x in plain.items():
            away = (found[n] - x).abs()
            assert (away <= (x - start[n]).square() / tau + 1e-12).all()
    options = none | {"server_lr": 0.25, "server_tau": 1e-12}
    found = under(train(make("fed-avg", **options), parties, rounds=1).server, "model")
    moved = (plain["conv1.bias"] - start["conv1.bias"]).abs() > 1e-6
    step = (found["conv1.bias"] - start["conv1.bias"])[moved]
    assert len(step)
    torch.testing.assert_close(step.abs(), torch.full_like(step, 0.25), rtol=1e-5, atol=0)


@pytest.mark.parametrize("optimizer", ADAPTIVE)
def test_chunks_and_the_wire_change_nothing(optimizer):
    parties = community_parties()
    method = make("fed-avg", server_optimizer=optimizer, fraction=0.5)
    whole = train(method, parties)
    assert_same(whole, train(method, parties, chunk=2), 1e-9)
    assert_same(whole, train(method, parties, wire=True), 1e-9)


def test_nothing_more_is_sent():
    parties = community_parties()
    tables = [
        train(make("fed-avg", server_optimizer=o), parties, rounds=2).fed.ledger.table()
        for o in ("none", "adam")
    ]
    assert tables[0].equals(tables[1])


def test_settings_of_no_optimizer_are_refused():
    for spec in fields(GlobalModel):
        if spec.name.startswith("server_") and spec.name != "server_optimizer":
            with pytest.raises(AtollError, match=rf"method\.{spec.name} has a meaning only with"):
                make("fed-avg", **{spec.name: 0.5})


def test_it_is_resumed_with_its_memory(tmp_path):
    """Stopped after two rounds of four and gone on with: the same last model and memory."""
    experiment = resolve(
        {
            "method": {"name": "fed-avg", "server_optimizer": "yogi"},
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 3},
            "model": {"hidden": 4},
            "run": {"rounds": 4},
        }
    )

    def interrupt(r, val):
        if r == 2:
            signal.raise_signal(signal.SIGINT)

    run_experiment(experiment, tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_experiment(experiment, tmp_path / "cut", interrupt)
    resume(tmp_path / "cut")
    whole, cut = ((tmp_path / n / "parameters.safetensors").read_bytes() for n in ("whole", "cut"))
    assert whole == cut


@pytest.mark.parametrize("name", FAMILY)
def test_moments_at_both_ends_are_remarked_upon(name):
    """Adam at clients keeps its moments unless told otherwise; plain sgd has none."""
    for options, expected in (
        ({"server_optimizer": "adam", "keep_optimizer": True}, True),
        ({"server_optimizer": "adam", "keep_optimizer": False}, False),
        ({"keep_optimizer": True}, False),
    ):
        method = make(name, **({"optimizer": Adam()} | options))
        info = Info(2, 4, 3, torch.float64)
        said = " ".join(method.remarks(method.start(info, 0), None))
        assert ("method.keep_optimizer=false" in said) is expected
    method = make("fed-avg", server_optimizer="adam", optimizer=SGD())
    assert not method.remarks({}, None)
