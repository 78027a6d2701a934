"""Federated averaging."""

from dataclasses import dataclass

from atoll.cohort import Cohort
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import GlobalModel, methods, pick
from atoll.rng import CohortRng
from atoll.tree import Tree, prefixed, spread, under


@methods.register("fed-avg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(GlobalModel):
    """Clients train the global model locally; the server averages (McMahan et al., 2017).

    Each round, the server sends the global model to a ``fraction`` of the clients, each trains it
    for ``epochs`` full-batch steps, and the server takes the mean weighted by labelled nodes:
    ``theta <- sum_k (n_k / n) theta_k``. The server sees the sum only, so the method runs under
    secure aggregation. Other ``weights`` are those of Fed-GALA.

    ``keep_optimizer`` lets Adam's moments live on across rounds (as in FED-PUB's code); without it
    each round starts with fresh ones.
    """

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        chosen = pick(fed, self.fraction)
        total = fed.sum("train", shared=state, to=chosen, expect=state)
        return self.averaged(fed, total, chosen)

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        fitted = self.fit(params_K, cohort, state, rng)
        return fitted.state, Reply(prefixed("model", fitted.params_K), weight=self.weight(cohort))
