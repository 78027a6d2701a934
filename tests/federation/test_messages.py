"""Messages are kept only if asked for, whole, as they crossed, and for their owner alone."""

import signal
import stat

import polars
import pytest
import torch

from atoll.errors import AtollError, Interrupted
from atoll.experiment.config import resolve
from atoll.experiment.runner import resume, run_experiment
from atoll.federation.messages import Messages, read_messages
from atoll.tree import flatten


def experiment(method="fed-pub", **run):
    return resolve(
        {
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 3},
            "method": {"name": method},
            "model": {"name": "gcn", "hidden": 8},
            "run": {"rounds": 3} | run,
        }
    )


def test_nothing_is_kept_unless_asked_for(tmp_path):
    run_experiment(experiment(), tmp_path / "run")
    assert not (tmp_path / "run" / "messages").exists()
    with pytest.raises(AtollError, match=r"has kept no messages; run it with: --set run\.keep"):
        read_messages(tmp_path / "run")


@pytest.mark.parametrize("method", ["fed-avg", "fed-pub"])
def test_what_is_kept_is_what_the_ledger_has(method, tmp_path):
    run_experiment(experiment(method, keep_messages=True), tmp_path / "run")
    messages = read_messages(tmp_path / "run")
    ledger = polars.read_parquet(tmp_path / "run" / "ledger.parquet")
    for up, direction in ((True, "up"), (False, "down")):
        kept = sum(
            t.numel() * t.itemsize
            for m in messages
            if m.up == up
            for c in m.clients
            for n, t in flatten(m.of(c)).items()
            if not n.endswith("#sizes")
        )
        assert kept == ledger.filter(direction=direction)["bytes"].sum()
    assert {m.step for m in messages} == set(ledger["step"])
    for file in (tmp_path / "run" / "messages").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_keeping_messages_changes_no_result(tmp_path):
    for name, keep in (("with", True), ("without", False)):
        run_experiment(experiment(keep_messages=keep), tmp_path / name)
    one, other = (
        (tmp_path / n / "parameters.safetensors").read_bytes() for n in ("with", "without")
    )
    assert one == other


def test_a_continued_run_has_the_same_messages(tmp_path):
    def stop(r, val):
        if r == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run_experiment(experiment(keep_messages=True), tmp_path / "cut", stop)
    resume(tmp_path / "cut")
    run_experiment(experiment(keep_messages=True), tmp_path / "whole")
    files = sorted(p.name for p in (tmp_path / "whole" / "messages").iterdir())
    assert files[:3] == [f"round-{r:06d}.safetensors" for r in (1, 2, 3)]
    for name in files:
        cut, whole = ((tmp_path / d / "messages" / name).read_bytes() for d in ("cut", "whole"))
        assert cut == whole


def test_a_message_is_a_copy(tmp_path):
    model = torch.zeros(2, 3)
    messages = Messages()
    messages.add((1, "train", 0, "ask"), True, (4, 7), {}, {"model/w": model})
    model += 1
    messages.store(tmp_path, "round-000001")
    [message] = read_messages(tmp_path)
    assert message.clients == (4, 7)
    assert torch.equal(message.of(7)["model/w"], torch.zeros(1, 3))
