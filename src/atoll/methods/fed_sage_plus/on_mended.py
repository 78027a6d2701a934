"""A global model on mended graphs: subgraphs with neighbours that each client has made up."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.leaves import Ragged
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.models.base import Model
from atoll.models.mended import OnMended
from atoll.ops.mending import MendedCohort, mend
from atoll.rng import CohortRng
from atoll.tree import Kinds, Params, nested


@dataclass(frozen=True, kw_only=True)
class OnMendedGraphs(GlobalModel):
    """FedAvg where the model sees mended graphs and the task the original ones.

    The private kind ``mended`` says how: ``counts`` of new neighbours per node, and their ``rows``
    of features. Clients begin without any.
    """

    def join(self, client: Client) -> Kinds:
        cohort = client.cohort
        counts = Ragged(torch.zeros(sum(cohort.sizes), dtype=torch.int64), cohort.sizes)
        rows = Ragged.empty(client.k, cohort.features, dtype=client.dtype)
        return super().join(client) | {"mended": {"counts": counts, "rows": rows}}

    def view(self, client: Client) -> Client:
        """The mended graphs."""
        return client.on(mend(client.cohort, **client.state["mended"]))

    def loss(
        self, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng | None = None
    ) -> Tensor:
        model, original = self.seen(cohort)
        return self.task.loss(model, params_K, original, rng)

    def scores(self, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
        model, original = self.seen(cohort)
        with torch.no_grad():
            return nested(self.task.scores(model, params_K, original))["metric"]

    def seen(self, cohort: Cohort) -> tuple[Model, Cohort]:
        """The model, which works on the mended graphs, and the graphs that the task is about."""
        if not isinstance(cohort, MendedCohort):
            return self.model, cohort
        return OnMended(model=self.model, mended=cohort), cohort.unmended
