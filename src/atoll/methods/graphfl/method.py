"""Meta-learning for few, unevenly distributed labels."""

from functools import partial
from typing import Literal

from atoll.cohort import Cohort
from atoll.errors import AtollError, NoReplies
from atoll.federation.calls import Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import register
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.methods.graphfl.clusters import cluster_batch
from atoll.methods.graphfl.meta import has_nodes, meta_gradient, on_queries
from atoll.optimizers.fit import Draw
from atoll.optimizers.sgd import SGD
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

    paper = ("graphfl/figure-1",)

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
        return self.moved(server, self.averaged(fed, total, chosen))

    def maml(self, fed: Federation, theta: Params) -> Params:
        """Stage I: ``theta - beta sum_i g_i``, or their mean."""
        try:
            total = fed.sum(
                "query_gradient",
                shared={"model": theta},
                to=self.chosen(fed),
                expect={"gradient": theta},
                weighted=True,
            )
        except NoReplies:
            return theta
        g = total.mean["gradient"]
        step = self.beta * (total.weight if self.meta_step == "sum" else 1.0)
        return {name: p - step * g[name] for name, p in theta.items()}

    @client_step
    def query_gradient(self, client: Client, model: Params) -> Reply:
        """Stage I at a client: ``epochs`` steps on S from the global model, then ``grad L_Q``."""
        theta = {name: p.clone() for name, p in model.items()}
        descent = client.begin(theta, "train", "val", keep=False)
        S, Q = client.on(descent.cohort), client.on(on_queries(descent.cohort))
        if self.order == "second":
            g = meta_gradient(
                descent.params,
                lambda p: S.loss(p, training=True),
                lambda p: Q.loss(p, training=True),
                self.optimizer.lr,
                self.epochs,
                weight_decay=self.optimizer.weight_decay,
                steps_of=descent.steps_of,
            )
        else:
            for _ in range(self.epochs):
                descent.step(S.gradient(descent.params))
            g = Q.gradient(descent.params)
        weight = has_nodes(on_queries(client.cohort))
        return Reply(gradient=descent.weight_gradient(g), weight=weight)

    @client_step
    def finetune(self, client: Client, model: Params) -> Reply:
        """Stage II at a client."""
        return self.train(client, model)

    def draw(self, cohort: Cohort, rng: CohortRng) -> Draw | None:
        if not self.clusters:
            return None
        return partial(cluster_batch, cohort, self.clusters, self.batch, rng)
