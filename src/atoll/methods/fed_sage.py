"""Federated GraphSAGE."""

from dataclasses import dataclass, field

from atoll.cohort import Cohort
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import GlobalModel, methods, pick
from atoll.models.base import Model
from atoll.models.sage import SAGE
from atoll.rng import CohortRng
from atoll.tree import Tree, prefixed, spread, under


@methods.register("fed-sage")
@dataclass(frozen=True, kw_only=True)
class FedSage(GlobalModel):
    """FedAvg of a GraphSAGE classifier (FedSage, Zhang et al., 2021).

    Each client trains the global model on its own subgraph, and the server takes the mean weighted
    by labelled nodes. It is FedAvg in all but its default model; any model can be given instead,
    as FED-PUB gives every method a GCN. The original draws mini-batches and neighbours; here every
    step is over the whole subgraph and all neighbours, as in all methods.
    """

    model: Model = field(default_factory=SAGE)

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        return fed.sum("train", shared=state, to=pick(fed, self.fraction), expect=state).mean

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        fitted = self.fit(params_K, cohort, state, rng)
        return fitted.state, Reply(prefixed("model", fitted.params_K), weight=cohort.labelled)
