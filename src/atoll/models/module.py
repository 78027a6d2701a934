"""Any torch module with ``forward(x, edge_index)``, run client by client."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import Graph, dense
from atoll.models.base import Model, models
from atoll.rng import CohortRng
from atoll.tree import Params

Factory = Callable[[int, int], nn.Module]


@models.register("module")
@dataclass(frozen=True, kw_only=True)
class Module(Model):
    """Any torch.nn.Module with forward(x, edge_index), such as a PyG model, client by client.

    ``factory`` takes (features, classes) and returns the module: a callable, or in a config file
    its address as ``"package.module:name"``. The module is used unchanged, once per client; it is
    slower than the stacked models but admits any architecture. Where edges have weights and the
    module's forward has a parameter ``edge_weight``, it is given them ``[e]``; a module without
    one does not see them. Modules that keep state between calls (batch-norm statistics, PyG's
    ``cached=True``) would carry one client's data into the next client's result and are refused.
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
            module = self._build(cohort.features, cohort.classes).train(rng is not None)
        scores = []
        for position, graph in enumerate(cohort.inputs.graphs):
            own = {name: p[position] for name, p in params_K.items()}
            inputs = _inputs(graph, cohort.dtype)
            with torch.random.fork_rng(devices=[]):
                if rng is not None:
                    torch.manual_seed(int(rng.streams[position].integers(2**62)))
                weights = _weights(module, graph, cohort.dtype)
                scores.append(functional_call(module, own, inputs, weights))
        return torch.cat(scores)

    def _build(self, features: int, classes: int) -> nn.Module:
        module = _resolve(self.factory)(features, classes)
        if not isinstance(module, nn.Module):
            raise AtollError(
                f"model.factory returned a {type(module).__name__}; it must return a "
                f"torch.nn.Module for (features, classes)."
            )
        buffers = [name for name, _ in module.named_buffers()]
        cached = [n for n, part in module.named_modules() if getattr(part, "cached", False) is True]
        if buffers or cached:
            raise AtollError(
                f"model.factory's module keeps state between calls ({(buffers + cached)[0]}), "
                f"which would leak between clients; use layers without running statistics and "
                f"cached=False."
            )
        return module


def _inputs(graph: Graph, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    def build() -> tuple[Tensor, Tensor]:
        return torch.from_numpy(dense(graph.x)).to(dtype), torch.from_numpy(graph.edges)

    return graph.cached(f"torch inputs {dtype}", build)


def _weights(module: nn.Module, graph: Graph, dtype: torch.dtype) -> dict[str, Tensor]:
    """The edges' weights, if there are any and the module takes them."""
    if graph.weights is None or "edge_weight" not in inspect.signature(module.forward).parameters:
        return {}
    return {"edge_weight": torch.from_numpy(graph.weights).to(dtype)}


def _resolve(factory: Factory | str) -> Factory:
    if callable(factory):
        return factory
    where, _, name = factory.partition(":")
    if "" not in sys.path:
        sys.path.append("")  # a file beside the user, as with `python -m`
    try:
        found: Factory = getattr(importlib.import_module(where), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise AtollError(
            f"model.factory '{factory}' can't be imported ({problem}); give it as "
            f"'package.module:name'."
        ) from problem
    return found
