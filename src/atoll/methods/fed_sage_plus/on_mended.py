"""A global model on mended graphs: subgraphs with neighbours that each client has made up."""

from dataclasses import dataclass

import torch

from atoll.leaves import Ragged
from atoll.methods.client import Client
from atoll.methods.fed_sage_plus.mending import mend
from atoll.methods.global_model import GlobalModel
from atoll.tree import Kinds


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
