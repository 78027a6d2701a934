"""Link prediction."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import SPLITS, Graph, directed_weights
from atoll.models.base import Model
from atoll.ops.ragged import segment_mean
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tasks.base import Task, tasks
from atoll.tasks.pairs import link_loss, link_scores, linked_pairs, sample_negatives, unlinked_pairs
from atoll.tree import Params


@tasks.register("links")
@dataclass(frozen=True, kw_only=True)
class LinkPrediction(Task):
    """Which nodes are linked, from the links that are left; scored by the area under the ROC curve.

    Each client hides shares ``val`` and ``test`` of its links; the model is given the others only.
    A pair's score is the inner product of its nodes' outputs, ``dimensions`` numbers each; training
    is binary cross-entropy on the visible links and as many unlinked pairs, drawn anew at each step
    (FED-PUB, Section 5.2). Scores use as many unlinked pairs as links, drawn once, none of them a
    link that is hidden. The paper does not say how many links it hides; 5 and 10 percent are the
    custom since Kipf and Welling (2016).

    Classes are of no use here: labels are dropped, and ``dimensions`` takes the place of their
    number. Where clients overlap, a link that one of them hides may be an edge at another.
    """

    metric: ClassVar[str] = "auc"

    val: float = option(0.05, above=0)
    test: float = option(0.1, above=0)
    dimensions: int = option(64, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.val + self.test >= 1:
            raise AtollError(
                f"task.val is {self.val} and task.test {self.test}; together they must stay below "
                f"1, to leave links to train on."
            )

    def prepare(self, graph: Graph, rng: np.random.Generator) -> Graph:
        links = rng.permutation(linked_pairs(graph), axis=1)
        val, test = (round(share * links.shape[1]) for share in (self.val, self.test))
        parts = np.split(links, [links.shape[1] - val - test, links.shape[1] - test], axis=1)
        probes = tuple((part, unlinked_pairs(graph, part.shape[1], rng)) for part in parts)
        visible = parts[0]
        edges = np.concatenate([visible, visible[::-1]], axis=1) if graph.undirected else visible
        edges = edges[:, np.lexsort(edges[::-1])]
        weights = graph.weights
        if weights is not None:
            weights = directed_weights(graph.edges, weights, edges)
        nothing = np.zeros(graph.nodes, dtype=bool)
        return replace(
            graph,
            edges=edges,
            weights=weights,
            y=np.full(graph.nodes, -1),
            classes=self.dimensions,
            class_names=(),
            train=nothing,
            val=nothing,
            test=nothing,
            probes=probes,
            graph_of=None,
        )

    def missing(self, graph: Graph) -> str:
        return "" if graph.probes and graph.probes[0][0].shape[1] else "training link"

    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        positive, negative = cohort.probes("train")
        if rng is not None:
            negative = sample_negatives(cohort, rng)
        return link_loss(model.apply(params_K, cohort, rng), positive, negative, cohort)

    def scores(self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort) -> Params:
        z = model.apply(params_K, cohort)
        columns = [_split_scores(z, *cohort.probes(split), cohort) for split in SPLITS]
        return {name: torch.stack([c[name] for c in columns], dim=1) for name in columns[0]}


def _split_scores(z: Tensor, positive: Tensor, negative: Tensor, cohort: Cohort) -> Params:
    """Each client's area under the ROC curve, loss and number of pairs ``[K]``."""
    linked, unlinked = link_scores(z, positive), link_scores(z, negative)
    client = cohort.batch[torch.cat([positive[0], negative[0]])]
    losses = torch.cat([softplus(-linked), softplus(unlinked)]).double()
    scores = torch.cat([linked, unlinked]).double().cpu().numpy()
    is_link = np.arange(len(scores)) < len(linked)
    order = np.argsort(client.cpu().numpy(), kind="stable")
    pairs = torch.bincount(client, minlength=cohort.k)
    ends = pairs.cumsum(0)[:-1].cpu().numpy()
    blocks = zip(np.split(scores[order], ends), np.split(is_link[order], ends), strict=True)
    return {
        "auc": torch.tensor([roc_auc(s, y) for s, y in blocks], dtype=torch.float64),
        "loss": segment_mean(losses, client, cohort.k),
        "nodes": pairs.double(),
    }


def roc_auc(scores: np.ndarray, is_link: np.ndarray) -> float:
    """The chance that a link outscores a pair that is none; ties count half. 0 without either."""
    links = int(is_link.sum())
    others = len(is_link) - links
    if links == 0 or others == 0:
        return 0.0
    # Loaded late: scipy.stats takes a quarter of the start of every run.
    from scipy.stats import rankdata

    ranks = rankdata(scores)[is_link].sum()
    return float((ranks - links * (links + 1) / 2) / (links * others))
