"""Meta-learning for few, unevenly distributed labels."""

from collections.abc import Mapping
from typing import Literal

from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError, NoReplies
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import register
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.methods.graphfl.clusters import cluster_batch
from atoll.methods.graphfl.descent import query_gradient
from atoll.methods.graphfl.meta import has_nodes, on_queries
from atoll.ops.optimize import SGD
from atoll.ops.span import Span
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tree import Kinds, Params


@register("graphfl")
class GraphFL(GlobalModel):
    """A MAML step on query nodes, then federated averaging (GraphFL, Wang et al., 2020).

    Algorithm 1. A client's training nodes are its support nodes S, its validation nodes its query
    nodes Q. Each episode, with a ``fraction`` of the clients:

    - Stage I: client i takes ``epochs`` steps from the global model,
      ``theta_i <- theta_i - alpha grad L_S(theta_i)``, and sends ``g_i = grad L_Q(theta_i)``; the
      server sets ``theta_hat = theta - beta sum_i g_i`` (eq. 5, 6).
    - Stage II: client i takes ``epochs`` steps from ``theta_hat`` on S; the server takes the plain
      mean (eq. 7, 8), or the mean by other ``weights``.

    The server sees sums only. ``alpha`` is ``optimizer.lr``, and gradient descent as written is the
    optimizer ``sgd``; any other may take the local steps too, starting Stage I afresh each time.

    Where the text leaves room:

    - ``order``: eq. 6 is the gradient with respect to theta, through all of the local steps
      (``second``, which needs plain ``sgd``); Algorithm 1 reads as the gradient at the adapted
      parameters (``first``, the default). See :func:`atoll.methods.graphfl.meta.meta_gradient`.
    - The sum of eq. 6 makes a longer step the more clients take part. ``meta_step = "mean"``
      divides it by their number, so that one ``beta`` serves any ``fraction``.
    - A client without query nodes sends no gradient, one without support nodes no model: their
      weights are zero. If no chosen client has a query node, Stage I changes nothing.
    - Query nodes are trained on here, so validation scores (which choose the round that is
      reported) are no measure of how well the model generalises.

    ``clusters`` above 0 trains on mini-batches: each local step uses ``batch`` of that many METIS
    clusters of the client's graph (:func:`atoll.methods.graphfl.clusters.cluster_batch`). The paper
    uses Cluster-GCN for Amazon2M and gives no numbers.
    """

    tasks = ("nodes",)

    beta: float = option(0.1, at_least=0)
    meta_step: Literal["sum", "mean"] = "sum"
    order: Literal["first", "second"] = "first"
    clusters: int = option(0, at_least=0, why="0 are full batches")
    batch: int = option(1, at_least=1)
    evaluates: Literal["local", "global"] = "global"
    weights: Literal["labelled", "labelled-and-size", "equal"] = "equal"

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = isinstance(self.optimizer, SGD) and self.optimizer.momentum == 0
        if self.order == "second" and not plain:
            raise AtollError(
                "method.order 'second' differentiates plain gradient descent; use the optimizer "
                "'sgd' without momentum, or the order 'first'."
            )

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        theta_hat = self.maml(fed, server["model"])
        chosen, total = self.train_some(fed, {"model": theta_hat}, "finetune")
        return {"model": self.averaged(fed, total, chosen)}

    def maml(self, fed: Federation, theta: Params) -> Params:
        """Stage I: ``theta - beta sum_i g_i``, or their mean."""
        try:
            total = fed.sum(
                "query_gradient",
                shared={"model": theta},
                to=self.chosen(fed),
                expect={"gradient": theta},
            )
        except NoReplies:
            return theta
        g = total.mean["gradient"]
        step = self.beta * (total.weight if self.meta_step == "sum" else 1.0)
        return {name: p - step * g[name] for name, p in theta.items()}

    @client_step
    def query_gradient(self, client: Client, model: Params) -> Reply:
        """Stage I at a client."""
        g = query_gradient(client, model, through_steps=self.order == "second")
        return Reply(gradient=g, weight=has_nodes(on_queries(client.cohort)))

    @client_step
    def finetune(self, client: Client, model: Params) -> Reply:
        """Stage II at a client."""
        return self.train(client, model)

    def span(self, cohort: Cohort, *splits: str) -> Span | None:
        return None if self.clusters else super().span(cohort, *splits)

    def loss(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        if self.clusters and rng is not None:
            cohort = cluster_batch(cohort, self.clusters, self.batch, rng)
        return super().loss(params_K, cohort, rng)
