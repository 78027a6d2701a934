"""What a model is: how to make its parameters, and how to apply K of them to K graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.collection import Collection
from atoll.cohort.dual import FirstLayer
from atoll.cohort.targets import Targets
from atoll.device import of_numpy
from atoll.graph import make_graph
from atoll.ops.activation import rectified, shifted
from atoll.ops.dropout import dropout
from atoll.ops.ragged import segment_mean
from atoll.ops.written_out import ProductGradient
from atoll.options import check_options
from atoll.registry import Registry
from atoll.rng import CohortRng
from atoll.tree import Params, replicated

models: Registry[Model] = Registry("model", "atoll.models", lambda: Model, "atoll.models")
ReadOut = Literal["sum", "mean"]
Pullback = Callable[[Tensor], Params]
WrittenPullback = Callable[[Tensor], dict[str, Tensor | ProductGradient]]


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """A functional model. Its fields are its hyper-parameters; it holds no weights."""

    registered_name: ClassVar[str]
    # How many hops beyond the propagated features of its first layer a node's scores depend on,
    # where few nodes matter (``Cohort.k_hop``); None: all nodes are computed.
    reach: ClassVar[int | None] = None
    # Weights ``[f, h]`` that features are multiplied with (``Cohort.linear``), used nowhere else.
    on_features: ClassVar[tuple[str, ...]] = ()
    # Whether it can classify small graphs: it reads their nodes out into one row per graph.
    reads_out: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options("model", self)

    @property
    def sampled_hops(self) -> tuple[int, ...]:
        """How many hops around a node can be sampled: those beyond the propagated features of the
        first layer and, where these may be sampled too, one more. Empty: not known."""
        return () if self.reach is None else (self.reach,)

    @property
    def first_layer(self) -> FirstLayer | None:
        """The one product with features that all else follows from, if there is such a one."""
        return None

    @abstractmethod
    def init(self, features: int, classes: int, rng: np.random.Generator) -> Params:
        """One model's parameters, in float64; the federation casts them to its own type."""

    @abstractmethod
    def apply(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        """Class scores ``[N, classes]``. ``rng`` None means evaluation: no dropout.

        Where clients hold collections of small graphs (:attr:`Cohort.collection`), a model that
        ``reads_out`` gives every node its graph's scores.
        """

    def apply_at(
        self,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        targets: Targets,
        rng: CohortRng | None = None,
    ) -> Tensor:
        """Class scores of target nodes ``[R, classes]``; models may leave out what others need."""
        return self.apply(params_K, cohort, rng)[targets.rows]

    def vjp(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> tuple[Tensor, Pullback] | None:
        """Class scores ``[N, classes]`` in evaluation, and the product of their Jacobian with a
        vector: from a gradient with respect to the scores to that with respect to the parameters.

        For models that have it written out where automatic differentiation would take longer than
        the derivatives themselves: in the dual of few nodes. None elsewhere.
        """
        return None

    def vjp_at(
        self,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        targets: Targets,
        rng: CohortRng | None = None,
    ) -> tuple[Tensor, WrittenPullback] | None:
        """What :meth:`apply_at` gives, with the same draws, and the product of its Jacobian with a
        vector, by compiled kernels; None where there are none for it.

        The gradient of a first layer may come as a product that is still to be made.
        """
        return None

    def predict(self, params_K: Mapping[str, Tensor], cohort: Cohort, rows: Tensor) -> Tensor:
        """Class scores of some nodes in evaluation, ``[R] -> [R, classes]``.

        A single model serves all clients that hold the same graph with one pass.
        """
        single = next(iter(params_K.values())).shape[0] == 1
        if single and cohort.one_graph:
            return self.apply(params_K, cohort.first)[rows % cohort.sizes[0]]
        return self.apply(params_K, cohort)[rows]

    def embed(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """What the model makes of each node before it is classified ``[N, d]``, in evaluation.

        By default the class scores themselves.
        """
        return self.apply(params_K, cohort)

    def mean_embedding(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The mean of :meth:`embed` over each client's nodes ``[K, d]``."""
        return segment_mean(self.embed(params_K, cohort), cohort.batch, cohort.k)

    def intermediate(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Tensor:
        """The output of the layer before the last ``[N, d]``, in evaluation.

        By default what :meth:`embed` gives.
        """
        return self.embed(params_K, cohort)

    def intermediate_width(self, features: int, classes: int) -> int:
        """How many numbers per node :meth:`intermediate` gives, found with a graph of one node."""
        x = np.zeros((1, features), dtype=np.float32)
        y, edges = np.zeros(1, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)
        node = Cohort([make_graph(x, edges, y, classes=classes)], dtype=torch.float64)
        params = self.init(features, classes, np.random.default_rng(0))
        return int(self.intermediate(replicated(params, 1), node).shape[1])


def glorot(rng: np.random.Generator, inputs: int, outputs: int) -> Tensor:
    """Uniform with the variance of Glorot and Bengio (2010), ``[inputs, outputs]``."""
    bound = (6.0 / (inputs + outputs)) ** 0.5
    return of_numpy(rng.uniform(-bound, bound, (inputs, outputs)))


def fan_in(rng: np.random.Generator, inputs: int, *shape: int) -> Tensor:
    """Uniform within ``1 / sqrt(inputs)``: what ``torch.nn.Linear`` starts from."""
    bound = inputs**-0.5
    return of_numpy(rng.uniform(-bound, bound, shape))


def without_biases(params: Params) -> Params:
    """What is left of a model whose layers have no bias; the weights stay as they were drawn."""
    return {name: p for name, p in params.items() if not name.endswith(".bias")}


def read_out(h: Tensor, cohort: Cohort, how: ReadOut) -> tuple[Tensor, Cohort | Collection]:
    """Rows of nodes ``[N, d]`` as rows of the small graphs they belong to ``[G, d]``.

    The second is what the rows are of: the collection, or the cohort itself, with the rows as they
    were, where each client holds one graph.
    """
    collection = cohort.collection
    if collection is None:
        return h, cohort
    total = collection.members(h.dtype) @ h
    return total if how == "sum" else total / collection.size[:, None], collection


def spread(rows: Tensor, at: Cohort | Collection | Targets) -> Tensor:
    """The inverse: every node gets the row of its small graph ``[G, d] -> [N, d]``."""
    return rows[at.of] if isinstance(at, Collection) else rows


def spread_at(rows: Tensor, at: Cohort | Collection, targets: Targets) -> Tensor:
    """What :func:`spread` gives target nodes ``[R, d]``."""
    chosen = targets.rows
    return rows.index_select(0, at.of[chosen] if isinstance(at, Collection) else chosen)


def add_bias(
    h: Tensor, params_K: Mapping[str, Tensor], name: str, at: Cohort | Targets | Collection
) -> Tensor:
    """``h`` with each client's bias of that name, if the model has it; in the memory of ``h``."""
    if name not in params_K:
        return h
    return shifted(h, params_K[name], at.batch, at.sizes)


def bias_and_relu(
    h: Tensor,
    params_K: Mapping[str, Tensor],
    name: str,
    at: Cohort | Collection,
    rate: float = 0.0,
    rng: CohortRng | None = None,
) -> Tensor:
    """``relu`` of :func:`add_bias`, then dropout; without dropout in the memory of ``h``."""
    if name not in params_K:
        return dropout(h.relu_(), rate, rng, at.sizes)
    return rectified(h, params_K[name], at.batch, at.sizes, rate, rng)
