"""A GIN beside an encoder of structure, which feeds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.models.base import add_bias, glorot, models
from atoll.models.gin import GraphReader, gin_layer, linear_layer
from atoll.ops.ragged import ragged_linear
from atoll.ops.structure import structure_of
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Params


@models.register("star-gin")
@dataclass(frozen=True, kw_only=True)
class StarGIN(GraphReader):
    """A feature encoder (GIN) that is given a structure encoder's output (FedStar, 2023).

    ``s`` begins as a linear map of each node's structure embedding, ``walks`` chances of random
    walks to return and ``degrees`` one-hot entries of its degree, and takes ``layers`` graph
    convolutions ``s <- tanh(P s W + b)``. ``h`` begins as a linear map of the features, and takes
    as many GIN layers on ``[h, s]``, each with relu and dropout, of the present ``s``. A linear map
    of the last ``[h, s]`` is read out (``readout``), and a hidden layer and a linear classifier
    follow, as in ``gin``. Where nodes are classified there is no read-out.

    Shapes: ``structure.input.weight [walks + degrees, hidden]``, ``structure.conv1.weight
    [hidden, hidden]``, ...; ``input.weight [f, hidden]``, ``conv1.lin1.weight [2 hidden, hidden]``,
    ``conv1.lin2.weight [hidden, hidden]``, ...; ``join.weight [2 hidden, hidden]``; ``post`` and
    ``classifier`` as in ``gin``.
    """

    walks: int = option(16, at_least=1)
    degrees: int = option(16, at_least=1)

    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        h = self.hidden
        params = linear_layer(rng, "structure.input", self.walks + self.degrees, h)
        for layer in range(1, self.layers + 1):
            params[f"structure.conv{layer}.weight"] = glorot(rng, h, h)
            params[f"structure.conv{layer}.bias"] = torch.zeros(h, dtype=torch.float64)
        params |= linear_layer(rng, "input", features, h)
        for layer in range(1, self.layers + 1):
            params |= linear_layer(rng, f"conv{layer}.lin1", 2 * h, h)
            params |= linear_layer(rng, f"conv{layer}.lin2", h, h)
        params |= linear_layer(rng, "join", 2 * h, h)
        params |= linear_layer(rng, "post", h, h)
        return params | linear_layer(rng, "classifier", h, classes)

    def encode(self, p: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None) -> Tensor:
        s = _linear(p, "structure.input", self.structure(cohort), cohort)
        h = add_bias(cohort.linear(p["input.weight"]), p, "input.bias", cohort)
        for layer in range(1, self.layers + 1):
            both = torch.cat([h, s], dim=1)
            h = gin_layer(p, f"conv{layer}", both, cohort, self.dropout, rng)
            s = cohort.operator("gcn") @ s
            s = _linear(p, f"structure.conv{layer}", s, cohort).tanh()
        return _linear(p, "join", torch.cat([h, s], dim=1), cohort)

    def structure(self, cohort: Cohort) -> Tensor:
        """The nodes' structure embeddings ``[N, walks + degrees]``."""
        return cohort.inputs.by_graph(
            f"structure {self.walks} {self.degrees}",
            cohort.dtype,
            lambda graph: structure_of(graph, self.walks, self.degrees),
        )


def _linear(p: Mapping[str, Tensor], name: str, h: Tensor, cohort: Cohort) -> Tensor:
    h = ragged_linear(h, p[f"{name}.weight"], cohort.sizes)
    return add_bias(h, p, f"{name}.bias", cohort)
