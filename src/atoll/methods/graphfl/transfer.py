"""Federated averaging, then transfer to new classes."""

from typing import Literal

from atoll.cohort import Cohort
from atoll.graph import Graph
from atoll.methods.base import Info, initial_model, register
from atoll.methods.client import Client
from atoll.methods.graphfl.new_domain import NewDomain
from atoll.tree import Params


@register("fed-avg-transfer")
class FedAvgTransfer(NewDomain):
    """FedAvg, then a few labels of new classes finetune its model (FL+TL in GraphFL's Table 2).

    Wang et al., 2020, Sections 4.2 and 5.3: learn a global model by FedAvg, take it as the initial
    model, finetune it with a few labelled nodes of the new classes. Training is that of
    ``fed-avg``, on the nodes of old classes, which are also what clients are weighed by; adapting
    is that of ``graphfl-domain`` (:class:`atoll.methods.graphfl.new_domain.NewDomain`).

    The paper does not say what becomes of the classifier. ``head``:

    - ``kept``, the default, takes the text by its word: one classifier for K0 classes is trained
      by clients whose classes differ, and finetuned as it is.
    - ``fresh``, the usual way of transfer learning: the classifier tells all old classes apart in
      training, and a new one for K0 classes, from the public seed, takes its place before
      adapting. Of an SGC nothing else is left.
    """

    paper = ("graphfl/table-2",)

    head: Literal["kept", "fresh"] = "kept"

    def initial_model(self, info: Info | Cohort, seed: int) -> Params:
        if self.head == "kept":
            return super().initial_model(info, seed)
        old_classes = info.classes - self.new_classes
        return initial_model(self.model, info.features, old_classes, info.dtype, seed)

    def transferred(self, theta: Params, cohort: Cohort, seed: int) -> Params:
        if self.head == "kept" or not self.new_classes:
            return theta
        # The classifier is what depends on the number of classes.
        fresh, other = (
            initial_model(self.model, cohort.features, classes, cohort.dtype, seed)
            for classes in (self.new_classes, self.new_classes + 1)
        )
        return {n: fresh[n] if fresh[n].shape != other[n].shape else p for n, p in theta.items()}

    def view(self, client: Client) -> Client:
        return super().view(client) if self.head == "kept" else client.on(self.old_classes(client))

    def counted(self, client: Client) -> Cohort:
        return self.view(client).cohort

    def old_classes(self, client: Client) -> Cohort:
        """All clients' common task: the old classes under their own numbers."""

        def without_new(g: Graph) -> Graph:
            old = g.y < g.classes - self.new_classes
            return g.relabelled(y=g.y, train=g.train & old, val=g.val & old, name=g.name)

        cohort = client.cohort
        return cohort.cached(
            f"old classes {self.new_classes}",
            lambda: cohort.relabelled([without_new(g) for g in cohort.graphs]),
        )
