"""``run.device``: nothing a step makes is on another device than the run's.

No GPU is needed. Every tensor counts as being on the device, but for those that came from it to the
machine's own memory (``.cpu()``) and what is computed of them: these may go to numpy and nowhere
else, and nothing else may go to numpy. So what would fail on a GPU fails here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

import atoll
from atoll import device
from atoll.device import kept_per_device, of_numpy, on_device, to_numpy
from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.experiment.trial import SmallParties, on_small_parties, tried
from atoll.methods.base import methods

# Where steps run: tensors and arrays meet here.
ROOMS = ("ops", "cohort", "models", "tasks", "optimizers", "methods", "federation", "privacy")
TO_NUMPY = (Tensor.numpy, Tensor.__array__)


class Elsewhere(TorchFunctionMode):
    """A device that is only pretended."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        here = [t for t in tensors if getattr(t, "is_here", False)]
        if func in TO_NUMPY and not here:
            raise AssertionError("a tensor of the device becomes an array; take it .cpu() first")
        if "cpu" in str(kwargs.get("device", "")):
            raise AssertionError("a tensor is made on the CPU")
        # A number may be anywhere.
        if here and any(t.dim() and not getattr(t, "is_here", False) for t in tensors):
            raise AssertionError(f"{getattr(func, '__name__', func)} of tensors of two devices")
        if func is Tensor.cpu:
            return marked(args[0].detach(), here=True)
        found = func(*args, **kwargs)
        for leaf in tree_leaves(found) if here else ():
            if isinstance(leaf, Tensor):
                marked(leaf, here=True)
        return found


def marked(tensor: Tensor, here: bool) -> Tensor:
    tensor.is_here = here
    return tensor


@pytest.fixture
def elsewhere(monkeypatch):
    """Arrays come to the device by one way; what torch.from_numpy gives is not there yet."""
    from_numpy = torch.from_numpy
    monkeypatch.setattr(torch, "from_numpy", lambda array: marked(from_numpy(array), here=True))
    monkeypatch.setattr(device, "there", lambda tensor: marked(tensor.detach(), here=False))
    return Elsewhere()


def experiment(name: str):
    tasks = methods[name].tasks
    chosen = choose(method=name, task=None if "nodes" in tasks else tasks[0])
    sizes = SmallParties(collection="nodes" not in tasks)
    return on_small_parties(chosen, sizes)


@pytest.mark.parametrize("name", sorted(methods))
def test_nothing_is_made_on_another_device(name, elsewhere):
    chosen = experiment(name)
    with elsewhere:
        trial = tried(chosen, 2)
    assert trial.steps


@pytest.mark.parametrize("model", ["sage", "appnp", "gat", "gin", "mlp", "sgc", "gamlp"])
def test_nor_by_another_model_or_with_protections(model, elsewhere):
    chosen = on_small_parties(choose(method="fed-avg", model=model))
    with elsewhere:
        tried(replace(chosen, privacy=replace(chosen.privacy, secure_sum=True, clip=1.0)), 1)


def test_what_the_pretended_device_refuses(elsewhere):
    array = np.ones(2)
    with elsewhere:
        there, here = of_numpy(array), torch.from_numpy(array)
        assert (there + there).cpu().numpy().tolist() == [2.0, 2.0]
        assert to_numpy(there).tolist() == [1.0, 1.0]
        for wrong, why in (
            (lambda: there + here, "two devices"),
            (lambda: there + there.cpu(), "two devices"),
            (lambda: (there + there).numpy(), "becomes an array"),
            (lambda: np.asarray(there), "becomes an array"),
            (lambda: torch.zeros(2, device="cpu"), "made on the CPU"),
        ):
            with pytest.raises(AssertionError, match=why):
                wrong()


def test_arrays_come_and_go_by_one_way_only():
    """Also in what the small federations above do not reach."""
    source = Path(atoll.__file__).parent
    files = [p for room in ROOMS for p in (source / room).rglob("*.py") if "attacks" not in p.parts]
    wrong = re.compile(r"torch\.(from_numpy|frombuffer)|(?<!cpu\(\))\.numpy\(\)|device=.cpu")
    found = [f"{p.relative_to(source)}: {wrong.search(p.read_text())[0]}" for p in files
             if wrong.search(p.read_text())]  # fmt: skip
    assert found == []


def test_devices_that_there_are_not(tmp_path):
    with pytest.raises(AtollError, match=r"run\.device is 'gpu', which is no device of torch"):
        choose(settings=[("run.device", "gpu")])
    with pytest.raises(AtollError, match="can't be used here"):
        on_device("cuda:99")


def test_what_is_kept_is_kept_per_device():
    @kept_per_device(maxsize=2)
    def zeros(n):
        return torch.zeros(n)

    with torch.device("meta"):
        assert zeros(2).device.type == "meta"
    assert zeros(2).device.type == "cpu"
    assert zeros(2) is zeros(2)
