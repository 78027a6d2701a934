"""How many parameters the masks of two clients have in common."""

import numpy as np
import torch

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, load_whole, parties_of, simulate
from atoll.methods.fed_pub.method import FedPub
from atoll.partition.statistics import PartitionStatistics
from atoll.reproduction.studies.base import Findings, Study, studies
from atoll.reproduction.studies.label_shift import jensen_shannon
from atoll.tree import Params, under

# Besides the method's own threshold, for masks that do not depend on it.
_THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
_DIFFERENCES = {"contrast": ("similar", "dissimilar"), "range": ("most", "least")}


@studies.register("shared-parameters")
class SharedParameters(Study):
    """The share of masked parameters that two clients both keep (FED-PUB, Appendix C.4).

    Of those that either keeps, after the last round: ``similar`` for the two clients whose labels
    are distributed most alike (least Jensen-Shannon divergence), ``dissimilar`` for the two whose
    are least alike; ``similar_of_all`` and ``dissimilar_of_all`` are shares of all parameters.
    ``similar@0.5`` and so on take a mask's entries below 0.5 for dropped, whatever the method's
    threshold. ``kept`` is the share that a client keeps on average, ``contrast`` (``contrast@0.5``)
    how much more the similar two share than the others.

    The paper does not say how it found its two pairs, nor what the share is of. In a second
    reading they are found by the masks themselves, and the share is of what *one* of the two
    keeps: ``most`` and ``least`` over all ordered pairs, and ``range``, the difference.
    """

    caption = "Share of parameters"

    def findings(self, experiment: Experiment) -> Findings:
        fed, state = simulate(experiment, load_parties(experiment))
        for r in range(1, experiment.run.rounds + 1):
            fed.begin(r)
            state = experiment.method.round(fed, state, r)
        method, mask_K = experiment.method, under(fed.host.state, "mask")
        if not isinstance(method, FedPub) or not mask_K:
            raise AtollError(
                f"{experiment.method.registered_name} has no masks here; choose fed-pub with "
                f"method.masks=true."
            )
        whole = load_whole(experiment)
        labels = PartitionStatistics(whole, parties_of(experiment, whole)).labels
        alike, apart = extreme_pairs(labels)
        own = method.threshold
        figures = {}
        for threshold in dict.fromkeys((own, *_THRESHOLDS)):
            kept_K = kept(mask_K, threshold)
            ends = [f"@{threshold:g}"] + ([""] if threshold == own else [])
            for end in ends:
                figures[f"kept{end}"] = float(kept_K.double().mean())
                for name, (i, j) in (("similar", alike), ("dissimilar", apart)):
                    both = float((kept_K[i] & kept_K[j]).sum())
                    figures[f"{name}{end}"] = both / max(float((kept_K[i] | kept_K[j]).sum()), 1.0)
                    figures[f"{name}_of_all{end}"] = both / kept_K.shape[1]
                figures[f"least{end}"], figures[f"most{end}"] = extreme_shares(kept_K)
        return Findings(figures)

    def figure(self, found: Findings, name: str) -> float:
        for difference, pairs in _DIFFERENCES.items():
            if name.startswith(difference):
                end = name.removeprefix(difference)
                alike, apart = (super(SharedParameters, self).figure(found, f"{pair}{end}")
                                for pair in pairs)  # fmt: skip
                return alike - apart
        return super().figure(found, name)

    def default_figure(self, experiment: Experiment) -> str:
        return "similar"


def kept(mask_K: Params, threshold: float) -> torch.Tensor:
    """Which entries of all masks each client keeps, ``[K, entries]``."""
    return torch.cat([m.abs().flatten(1) >= threshold for m in mask_K.values()], dim=1)


def extreme_shares(kept_K: torch.Tensor) -> tuple[float, float]:
    """The least and the largest share of what a client keeps that another one keeps, too."""
    each = kept_K.float()
    of_own = (each @ each.T) / each.sum(1).clamp(min=1)[:, None]
    others = of_own[~torch.eye(len(each), dtype=torch.bool)]
    return float(others.min()), float(others.max())


def extreme_pairs(labels: np.ndarray) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two clients whose label counts ``[K, classes]`` are most alike, and the least alike."""
    shares = labels / labels.sum(1, keepdims=True)
    divergence = jensen_shannon(shares[:, None], shares[None])
    first, second = np.triu_indices(len(shares), 1)
    between = divergence[first, second]
    nearest, farthest = int(between.argmin()), int(between.argmax())
    return (
        (int(first[nearest]), int(second[nearest])),
        (int(first[farthest]), int(second[farthest])),
    )
