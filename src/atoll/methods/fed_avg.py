"""Federated averaging."""

from dataclasses import dataclass
from typing import Literal

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.methods.base import Info, Method, blank_scores, initial_model, methods, pick
from atoll.rng import CohortRng
from atoll.tree import Tree, prefixed, spread, under


@methods.register("fed-avg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    """Clients train the global model locally; the server averages (McMahan et al., 2017).

    Each round, the server sends the global model to a ``fraction`` of the clients, each trains it
    for ``epochs`` full-batch steps, and the server takes the mean weighted by labelled nodes:
    ``theta <- sum_k (n_k / n) theta_k``. The server sees the sum only, so the method runs under
    secure aggregation.

    ``evaluates`` says which model a client is scored with: ``local``, the one it has just trained
    and would go on using (as in FED-PUB's code), or ``global``, the new average, which is sent to
    every client for the purpose. ``keep_optimizer`` lets Adam's moments live on across rounds (as
    in FED-PUB's code); without it each round starts with fresh ones.
    """

    fraction: float = 1.0
    evaluates: Literal["local", "global"] = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.fraction <= 1:
            raise AtollError(
                f"method.fraction is {self.fraction}; the share of clients a round must be above 0 "
                f"and at most 1."
            )

    def start(self, info: Info, seed: int) -> Tree:
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed)
        return prefixed("model", model)

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        return self.new_client(cohort, rng)

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        total = fed.sum("train", shared=state, to=pick(fed, self.fraction), expect=state)
        return total.mean

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        params_K, state = self.fit(params_K, cohort, state, rng)
        return state, Reply(prefixed("model", params_K), weight=cohort.labelled)

    def measure(self, fed: Federation, state: Tree) -> Replies:
        sent = state if self.evaluates == "global" else {}
        return fed.ask("evaluate", shared=sent, expect=blank_scores())
