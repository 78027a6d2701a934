"""Meta-learning for few, unevenly spread labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError, NoReplies
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import GlobalModel, methods, pick
from atoll.ops.clusters import cluster_batch
from atoll.ops.meta import has_nodes, meta_gradient, on_queries
from atoll.optimizers.descent import Descent
from atoll.optimizers.fit import begin
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, prefixed, spread, under


@methods.register("graphfl")
@dataclass(frozen=True, kw_only=True)
class GraphFL(GlobalModel):
    """A MAML step on query nodes, then federated averaging (GraphFL, Wang et al., 2020).

    Algorithm 1. A client's training nodes are its support nodes S, its validation nodes its query
    nodes Q. Each episode, with a ``fraction`` of the clients:

    - Stage I: client i takes ``epochs`` steps from the global model,
      ``theta_i <- theta_i - alpha grad L_S(theta_i)``, and sends ``g_i = grad L_Q(theta_i)``; the
      server sets ``theta_hat = theta - beta sum_i g_i`` (eq. 5, 6).
    - Stage II: client i takes ``epochs`` steps from ``theta_hat`` on S; the server takes the plain
      mean (eq. 7, 8).

    The server sees sums only. ``alpha`` is ``optimizer.lr``, and gradient descent as written is the
    optimizer ``sgd``; any other may take the local steps too, starting Stage I afresh each time.

    Where the text leaves room:

    - ``order``: eq. 6 is the gradient with respect to theta, through all of the local steps
      (``second``, which needs plain ``sgd``); Algorithm 1 reads as the gradient at the adapted
      parameters (``first``, the default). See :func:`atoll.ops.meta.meta_gradient`.
    - The sum of eq. 6 makes a longer step the more clients take part. ``meta_step = "mean"``
      divides it by their number, so that one ``beta`` serves any ``fraction``.
    - A client without query nodes sends no gradient, one without support nodes no model: their
      weights are zero. If no chosen client has a query node, Stage I changes nothing.
    - Query nodes are trained on here, so validation scores (which choose the round that is
      reported) are no measure of how well the model generalises.

    ``clusters`` above 0 trains on mini-batches: each local step sees ``batch`` of that many METIS
    clusters of the client's graph (:func:`atoll.ops.clusters.cluster_batch`). The paper uses
    Cluster-GCN for Amazon2M and gives no numbers.
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)

    beta: float = 0.1
    meta_step: Literal["sum", "mean"] = "sum"
    order: Literal["first", "second"] = "first"
    clusters: int = 0
    batch: int = 1
    evaluates: Literal["local", "global"] = "global"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0:
            raise AtollError(f"method.beta is {self.beta}; it can't be negative.")
        if self.clusters < 0 or self.batch < 1:
            raise AtollError(
                f"method.clusters is {self.clusters} and method.batch {self.batch}; there are 0 "
                f"clusters (full batches) or more, and at least 1 a batch."
            )
        plain = isinstance(self.optimizer, SGD) and self.optimizer.momentum == 0
        if self.order == "second" and not plain:
            raise AtollError(
                "method.order 'second' differentiates plain gradient descent; use the optimizer "
                "'sgd' without momentum, or the order 'first'."
            )

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        chosen = pick(fed, self.fraction)
        hat = self._maml(fed, state, chosen)
        return fed.sum("finetune", shared=hat, to=chosen, expect=hat).mean

    def _maml(self, fed: Federation, state: Tree, chosen: tuple[int, ...]) -> Tree:
        """Stage I: ``theta - beta sum_i g_i``, or their mean."""
        theta = under(state, "model")
        try:
            total = fed.sum(
                "query_gradient", shared=state, to=chosen, expect=prefixed("gradient", theta)
            )
        except NoReplies:
            return state
        mean = under(total.mean, "gradient")
        step = self.beta * (total.weight if self.meta_step == "sum" else 1.0)
        return prefixed("model", {name: p - step * mean[name] for name, p in theta.items()})

    @client_step
    def query_gradient(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        theta_K = spread(under(shared, "model"), cohort.k)
        splits = () if self.clusters else ("train", "val")
        descent = begin(self.task, self.model, self.optimizer, theta_K, cohort, splits)
        g_K = descent.weight_gradient(self._query_gradient(descent, rng))
        return state, Reply(prefixed("gradient", g_K), weight=has_nodes(on_queries(cohort)))

    def _query_gradient(self, descent: Descent, rng: CohortRng) -> Params:
        support, query = descent.cohort, on_queries(descent.cohort)
        if self.order == "second":
            return meta_gradient(
                descent.params,
                lambda p: self.loss(p, support, rng),
                lambda p: self.loss(p, query, rng),
                self.optimizer.lr,
                self.epochs,
                weight_decay=self.optimizer.weight_decay,
                steps_of=descent.steps_of,
            )
        for _ in range(self.epochs):
            descent.step(self._gradient(descent.params, support, rng))
        return self._gradient(descent.params, query, rng)

    def _gradient(self, params_K: Params, cohort: Cohort, rng: CohortRng) -> Params:
        return self.task.gradient(self.model, params_K, self._batch(cohort, rng), rng)

    def _batch(self, cohort: Cohort, rng: CohortRng) -> Cohort:
        """What one step sees: everything, or some clusters."""
        if not self.clusters:
            return cohort
        return cluster_batch(cohort, self.clusters, self.batch, rng)

    @client_step
    def finetune(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        draw = partial(self._batch, cohort, rng) if self.clusters else None
        fitted = self.fit(params_K, cohort, state, rng, draw=draw)
        return fitted.state, Reply(prefixed("model", fitted.params_K), weight=has_nodes(cohort))

    def loss(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        seen = cohort if rng is None else self._batch(cohort, rng)
        return super().loss(params_K, seen, rng)
