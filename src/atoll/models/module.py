"""Any torch module with ``forward(x, edge_index)``, run client by client."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.graph import Graph, dense
from atoll.models.base import Model, models
from atoll.plugins import load
from atoll.rng import CohortRng
from atoll.tree import Params

Factory = Callable[[int, int], nn.Module]


@models.register("module")
@dataclass(frozen=True, kw_only=True)
class Module(Model):
    """Any torch.nn.Module with forward(x, edge_index), such as a PyG model, client by client.

    ``factory`` takes (features, classes) and returns the module: a callable, or in a config file
    its address as ``"./mine.py:Net"`` or ``"package.module:name"``. The module is used unchanged,
    once per client; it is slower than the stacked models but admits any architecture. Where edges
    have weights and the module's forward has a parameter ``edge_weight``, it is given them ``[e]``;
    a module without one does not see them.

    Batch norm takes its mean and variance from the client's own graph, in training and in
    evaluation alike: a step sees the whole graph anyway, so nothing has to be remembered from step
    to step, and no statistics are ever averaged or sent. Its scale and shift are parameters like
    any other. Buffers that stay as they were made are fine (random ones are drawn the same for
    all). Modules that change theirs, or have PyG's ``cached=True``, would carry one client's data
    into the next client's result and are refused.
    """

    factory: Factory | str = ""

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            module = self._build(features, classes)
        return {name: p.detach().double() for name, p in module.named_parameters()}

    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        # The module's own weights are never used: functional_call replaces them all.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # buffers that are drawn are the same for everybody
            module = self._build(cohort.features, cohort.classes).train(rng is not None)
        module.to(cohort.dtype)
        scores = []
        for position, graph in enumerate(cohort.inputs.graphs):
            own = {name: p[position] for name, p in params_K.items()}
            with torch.random.fork_rng(devices=[]):
                if rng is not None:
                    torch.manual_seed(int(rng.streams[position].integers(2**62)))
                scores.append(_scores(module, own, graph, cohort))
        return torch.cat(scores)

    def _build(self, features: int, classes: int) -> nn.Module:
        module = _resolve(self.factory)(features, classes)
        if not isinstance(module, nn.Module):
            raise AtollError(
                f"model.factory returned a {type(module).__name__}; it must return a "
                f"torch.nn.Module for (features, classes)."
            )
        if any(isinstance(p, nn.UninitializedParameter) for p in module.parameters()):
            raise AtollError(
                "model.factory's module leaves sizes open (-1, or lazy layers); give them, as the "
                "factory is told the number of features and classes."
            )
        for name, part in module.named_modules():
            if getattr(part, "cached", False) is True:
                raise _keeps_state(name or type(part).__name__)
            if isinstance(part, nn.modules.batchnorm._NormBase):
                part.track_running_stats = False
                part.running_mean = part.running_var = part.num_batches_tracked = None
        return module


def _scores(module: nn.Module, own: Params, graph: Graph, cohort: Cohort) -> Tensor:
    """One client's class scores, by a module that must leave nothing behind."""
    before = {name: (b, b._version) for name, b in module.named_buffers()}
    inputs, weights = _inputs(graph, cohort.dtype), _weights(module, graph, cohort.dtype)
    try:
        found = functional_call(module, own, inputs, weights)
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        first = str(problem).strip().split("\n")[0].rstrip(".")
        raise AtollError(
            f"the model failed on a client's graph of {graph.nodes} nodes and "
            f"{graph.edges.shape[1]} edges: {type(problem).__name__}: {first} "
            f"({frames[-1].filename}, line {frames[-1].lineno}); it is called as "
            f"forward(x, edge_index)."
        ) from problem
    for name, buffer in module.named_buffers():
        old, version = before.get(name, (None, -1))
        if buffer is not old or buffer._version != version:
            raise _keeps_state(name)
    wanted = (graph.nodes, cohort.classes)
    if not isinstance(found, Tensor) or tuple(found.shape) != wanted:
        what = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise AtollError(
            f"the model's forward gave {what}; it must give one score per node and class, "
            f"{list(wanted)}."
        )
    return found


def _keeps_state(name: str) -> AtollError:
    return AtollError(
        f"model.factory's module keeps state between calls ({name}), which would leak between "
        f"clients; use layers that do not, and cached=False."
    )


def _inputs(graph: Graph, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    def build() -> tuple[Tensor, Tensor]:
        return of_numpy(dense(graph.x)).to(dtype), of_numpy(graph.edges)

    return graph.cached(f"torch inputs {dtype} on {torch.get_default_device()}", build)


def _weights(module: nn.Module, graph: Graph, dtype: torch.dtype) -> dict[str, Tensor]:
    """The edges' weights, if there are any and the module takes them."""
    if graph.weights is None or "edge_weight" not in inspect.signature(module.forward).parameters:
        return {}
    return {"edge_weight": of_numpy(graph.weights).to(dtype)}


def _resolve(factory: Factory | str) -> Factory:
    if callable(factory):
        return factory
    found = load(factory)
    if not callable(found):
        raise AtollError(
            f"model.factory '{factory}' is a {type(found).__name__}; it must be a torch module's "
            f"class or a function that returns a module for (features, classes)."
        )
    return found  # type: ignore[no-any-return]
