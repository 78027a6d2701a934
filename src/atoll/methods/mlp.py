"""An MLP a client, trained alone in batches."""

from dataclasses import dataclass, field
from typing import ClassVar

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Reply, client_step
from atoll.methods.base import Alone, methods
from atoll.models.base import Model
from atoll.models.mlp import MLP, bare_mlp
from atoll.ops.batches import check_batch, descend_in_batches
from atoll.optimizers.base import Optimizer
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tree import Tree, prefixed, under


@methods.register("mlp")
@dataclass(frozen=True, kw_only=True)
class LoneMLPs(Alone):
    """Each client trains an MLP on its own data points alone (GFL's MLPs, Wu et al., 2022).

    A round is I = ``epochs`` updates on ``batch`` of a client's points, drawn anew for each update
    (0: all of them). Nothing is communicated.
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)

    model: Model = field(default_factory=bare_mlp)
    optimizer: Optimizer = field(default_factory=lambda: SGD(lr=0.1))
    epochs: int = 10
    batch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, MLP):
            raise AtollError("the method mlp trains an MLP and no other model; set model.name=mlp.")
        check_batch(self.batch)

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        params_K, optimizer_K = descend_in_batches(
            self.model,
            under(state, "model"),
            cohort,
            self.optimizer,
            under(state, "optimizer") if self.keep_optimizer else {},
            self.batch,
            self.epochs,
            rng,
        )
        return prefixed("model", params_K) | prefixed("optimizer", optimizer_K), Reply({})
