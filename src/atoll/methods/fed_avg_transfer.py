"""Federated averaging, then transfer to new classes."""

from dataclasses import dataclass
from typing import Literal

import torch

from atoll.cohort import Cohort
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.graph import Graph
from atoll.methods.base import initial_model, methods
from atoll.methods.global_model import pick
from atoll.methods.new_domain import NewDomain
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, prefixed, spread, under


@methods.register("fed-avg-transfer")
@dataclass(frozen=True, kw_only=True)
class FedAvgTransfer(NewDomain):
    """FedAvg, then a few labels of new classes finetune its model (FL+TL in GraphFL's Table 2).

    Wang et al., 2020, Sections 4.2 and 5.3: learn a global model by FedAvg, take it as the initial
    model, finetune it with a few labelled nodes of the new classes. Training is that of
    ``fed-avg``; adapting is that of ``graphfl-domain``
    (:class:`atoll.methods.new_domain.NewDomain`).

    The paper does not say what becomes of the classifier. ``head``:

    - ``kept``, the default, takes the text by its word: one classifier for K0 classes is trained
      by clients whose classes differ, and finetuned as it is.
    - ``fresh``, the usual way of transfer learning: the classifier tells all old classes apart in
      training, and a new one for K0 classes, from the public seed, takes its place before
      adapting. Of an SGC nothing else is left.
    """

    head: Literal["kept", "fresh"] = "kept"

    def first_model(self, features: int, classes: int, dtype: torch.dtype, seed: int) -> Params:
        if self.head == "fresh":
            return initial_model(self.model, features, classes - self.new_classes, dtype, seed)
        return super().first_model(features, classes, dtype, seed)

    def transferred(self, params: Params, cohort: Cohort, seed: int) -> Params:
        if self.head == "kept" or not self.new_classes:
            return params
        fresh = initial_model(self.model, cohort.features, self.new_classes, cohort.dtype, seed)
        # The classifier is what depends on the number of classes.
        other = initial_model(self.model, cohort.features, self.new_classes + 1, cohort.dtype, seed)
        return {n: fresh[n] if fresh[n].shape != other[n].shape else p for n, p in params.items()}

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        return fed.sum("train", shared=state, to=pick(fed, self.fraction), expect=state).mean

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        kept = self.head == "kept"
        task = self.old_tasks(cohort, rng.seed) if kept else self._old_classes(cohort)
        params_K = spread(under(shared, "model"), cohort.k, into=under(state, "model"))
        fitted = self.fit(params_K, task, state, rng)
        return fitted.state, Reply(prefixed("model", fitted.params_K), weight=task.labelled)

    def _old_classes(self, cohort: Cohort) -> Cohort:
        """All clients' common task: the old classes under their own numbers."""

        def without_new(g: Graph) -> Graph:
            old = g.y < g.classes - self.new_classes
            return g.relabelled(y=g.y, train=g.train & old, val=g.val & old, name=g.name)

        return cohort.relabelled([without_new(g) for g in cohort.graphs])
