"""Federated averaging of MLPs, trained in batches."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import GlobalModel, methods, pick
from atoll.models.base import Model
from atoll.models.mlp import MLP, bare_mlp
from atoll.ops.batches import check_batch, descend_in_batches
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tree import Tree, prefixed, spread, under


@methods.register("fed-mlp")
@dataclass(frozen=True, kw_only=True)
class FedMLP(GlobalModel):
    """FedAvg of MLPs over data points, the graph left out (GFL's FedMLP, Wu et al., 2022).

    What GFL becomes where the aggregator is the identity (Remark 1). Each round, clients perform
    I = ``epochs`` updates of the average on ``batch`` of their points, drawn anew for each update
    (0: all of them); the server takes the mean, every client counting the same.
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)

    model: Model = field(default_factory=bare_mlp)
    optimizer: Optimizer = field(default_factory=lambda: SGD(lr=0.1))
    epochs: int = 10
    evaluates: Literal["local", "global"] = "global"
    batch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, MLP):
            raise AtollError("fed-mlp trains an MLP and no other model; set model.name=mlp.")
        check_batch(self.batch)

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        return fed.sum("train", shared=state, to=pick(fed, self.fraction), expect=state).mean

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K, optimizer_K = descend_in_batches(
            self.model,
            spread(under(shared, "model"), cohort.k, into=under(state, "model")),
            cohort,
            self.optimizer,
            under(state, "optimizer") if self.keep_optimizer else {},
            self.batch,
            self.epochs,
            rng,
        )
        model = prefixed("model", params_K)
        return model | prefixed("optimizer", optimizer_K), Reply(model)
