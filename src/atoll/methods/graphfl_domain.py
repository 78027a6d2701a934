"""Meta-learning for new label domains."""

from dataclasses import dataclass
from typing import Literal

from atoll.cohort import Cohort
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import methods, pick
from atoll.methods.new_domain import NewDomain
from atoll.ops.meta import has_nodes, meta_gradient, on_queries
from atoll.optimizers.fit import begin
from atoll.optimizers.steps import Steps
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, prefixed, spread, under


@methods.register("graphfl-domain")
@dataclass(frozen=True, kw_only=True)
class GraphFLDomain(NewDomain):
    """A model that few labels of new classes adapt (GraphFL, Algorithm 2; Wang et al., 2020).

    The objective is the loss on query nodes *after* a step on support nodes,
    ``L_i(theta) = L_Q(theta - alpha grad L_S(theta))`` (eq. 9). Each episode, a ``fraction`` of the
    clients take ``epochs`` steps from the global model,

        theta_hat <- theta - alpha grad L_S(theta)
        theta     <- theta - beta (I - alpha H_S(theta)) grad L_Q(theta_hat)

    with H the Hessian, and the server takes the plain mean of what they end with (eq. 13). At test
    time the global model is adapted with a few labelled nodes of the new classes, by steps of the
    first kind. The server sees sums only.

    ``beta`` is ``optimizer.lr``: the optimizer ``sgd`` takes the step as it is written, ``adam``
    takes the meta-gradient as its gradient. ``order = "first"`` leaves the Hessian out. Eq. 11
    lacks the gradient sign that Algorithm 2 has; the algorithm is followed.

    Which classes the K0 outputs stand for, in training and at test time, is told by
    ``new_classes`` (:class:`atoll.methods.new_domain.NewDomain`). Without new classes this is
    personalised federated meta-learning: every client adapts to its own training nodes.
    """

    order: Literal["first", "second"] = "second"

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        return fed.sum("train", shared=state, to=pick(fed, self.fraction), expect=state).mean

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        task = self.old_tasks(cohort, rng.seed)
        theta_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        optimizer_K = under(state, "optimizer") if self.keep_optimizer else {}
        descent = begin(
            self.task, self.model, self.optimizer, theta_K, task, ("train", "val"), optimizer_K
        )
        for _ in range(self.epochs):
            descent.step(self._meta_gradient(descent.params, descent.cohort, rng, descent.steps_of))
        model = prefixed("model", descent.weights())
        state = model | prefixed("optimizer", descent.state)
        return state, Reply(model, weight=has_nodes(on_queries(task)))

    def _meta_gradient(
        self, theta_K: Params, support: Cohort, rng: CohortRng, steps_of: Steps
    ) -> Params:
        query = on_queries(support)
        return meta_gradient(
            theta_K,
            lambda p: self.loss(p, support, rng),
            lambda p: self.loss(p, query, rng),
            self.alpha,
            exact=self.order == "second",
            steps_of=steps_of,
        )
