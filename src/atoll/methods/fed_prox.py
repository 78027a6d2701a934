"""FedAvg with a proximal term."""

from dataclasses import dataclass

import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import GlobalModel, Info, methods, pick
from atoll.ops.proximal import adapted, first_pull
from atoll.rng import CohortRng
from atoll.tree import Tree, prefixed, spread, sq_dist, under


@methods.register("fed-prox")
@dataclass(frozen=True, kw_only=True)
class FedProx(GlobalModel):
    """FedAvg with a proximal pull towards the last global model (Li et al., 2020).

    Client k minimises ``F_k(w) + mu/2 |w - w_t|^2``; the server averages as FedAvg does. The pull
    is zero at ``w_t``, so with one full-batch local step (``epochs=1``) the method equals FedAvg
    exactly; it needs ``epochs`` of 2 or more to matter.

    ``adaptive`` follows the heuristic of the original paper as Fed-GALA's thesis states it: start
    from ``mu`` (there 1), lower it by 0.1 when the loss has fallen for 5 rounds in a row, raise it
    by 0.1 whenever the loss rises. The loss is the weighted mean of the clients' training losses at
    the model they receive, before they train and without dropout, whose noise alone would raise mu
    for ever; mu does not fall below 0, and a row of 5 is used up by the step it causes. All this is
    our reading: the thesis does not say. Its clients then send one more number, their loss, which
    still reaches the server in the sum only.
    """

    mu: float = 1.0
    adaptive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu < 0:
            raise AtollError(f"method.mu is {self.mu}; it can't be negative.")

    def start(self, info: Info, seed: int) -> Tree:
        return super().start(info, seed) | prefixed("prox", first_pull(self.mu))

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        model = prefixed("model", under(state, "model"))
        pull = under(state, "prox")
        expect: Tree = dict(model)
        if self.adaptive:
            expect["metric/loss"] = torch.zeros((), dtype=torch.float64)
        chosen = pick(fed, self.fraction)
        total = fed.sum("train", shared=model | {"prox/mu": pull["mu"]}, to=chosen, expect=expect)
        if self.adaptive:
            pull = adapted(pull, under(total.mean, "metric")["loss"])
        return self.averaged(fed, total, chosen) | prefixed("prox", pull)

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        received = under(shared, "model")
        params_K = spread(received, cohort.k, into=under(state, "model"))
        mu = under(shared, "prox")["mu"].to(cohort.dtype)
        body: Tree = {}
        if self.adaptive:
            with torch.no_grad():
                body["metric/loss"] = self.loss(params_K, cohort).double()
        fitted = self.fit(
            params_K, cohort, state, rng, penalty=lambda p: mu / 2 * sq_dist(p, received)
        )
        body |= prefixed("model", fitted.params_K)
        return fitted.state, Reply(body, weight=self.weight(cohort))
