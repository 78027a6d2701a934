"""Meta-learning for new label domains."""

from typing import Literal

from atoll.cohort import Cohort
from atoll.methods.base import register
from atoll.methods.client import Client
from atoll.methods.graphfl.meta import meta_gradient, on_queries
from atoll.methods.graphfl.new_domain import NewDomain
from atoll.tree import Params


@register("graphfl-domain")
class GraphFLDomain(NewDomain):
    """A model that few labels of new classes adapt (GraphFL, Algorithm 2; Wang et al., 2020).

    The objective is the loss on query nodes *after* a step on support nodes,
    ``L_i(theta) = L_Q(theta - alpha grad L_S(theta))`` (eq. 9). Each episode, a ``fraction`` of the
    clients take ``epochs`` steps from the global model,

        theta_hat <- theta - alpha grad L_S(theta)
        theta     <- theta - beta (I - alpha H_S(theta)) grad L_Q(theta_hat)

    with H the Hessian, and the server takes the plain mean of what they end with (eq. 13), or the
    mean by other ``weights``, which count query nodes as the labelled ones. At test time the global
    model is adapted with a few labelled nodes of the new classes, by steps of the first kind. The
    server sees sums only.

    ``beta`` is ``optimizer.lr``: the optimizer ``sgd`` takes the step as it is written, ``adam``
    takes the meta-gradient as its gradient. ``order = "first"`` leaves the Hessian out. Eq. 11
    lacks the gradient sign that Algorithm 2 has; the algorithm is followed.

    Which classes the K0 outputs stand for, in training and at test time, follows from
    ``new_classes`` (:class:`atoll.methods.graphfl.new_domain.NewDomain`). Without new classes this
    is personalised federated meta-learning: every client adapts to its own training nodes.
    """

    paper = ("graphfl/table-2",)

    order: Literal["first", "second"] = "second"
    weights: Literal["labelled", "labelled-and-size", "equal"] = "equal"

    def local_training(self, client: Client, model: Params) -> Params:
        descent = self.view(client).begin(client.owned(model), "train", "val")
        S, Q = client.on(descent.cohort), client.on(on_queries(descent.cohort))
        for _ in range(self.epochs):
            # The gradient of eq. 9.
            g = meta_gradient(
                descent.params,
                lambda p: S.loss(p, training=True),
                lambda p: Q.loss(p, training=True),
                self.alpha,
                exact=self.order == "second",
                steps_of=descent.steps_of,
            )
            descent.step(g)
        client.state |= {"model": descent.weights(), "optimizer": descent.state}
        return client.state["model"]

    def counted(self, client: Client) -> Cohort:
        return on_queries(self.view(client).cohort)
