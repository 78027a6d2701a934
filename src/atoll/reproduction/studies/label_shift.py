"""How far the labels of clients are apart, within communities and between them."""

import numpy as np

from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_whole, parties_of
from atoll.partition.statistics import PartitionStatistics
from atoll.reproduction.studies.base import Findings, Study, studies

# FED-PUB's communities of 20 clients are five in a row each.
_TOGETHER = 5


@studies.register("label-shift")
class LabelShift(Study):
    """Jensen-Shannon divergences between clients' label distributions (FED-PUB, Appendix C.4).

    ``within`` is the mean over pairs of the same community, ``between`` that over the others.
    Communities are five clients in a row: halves of one METIS part where clients overlap, and parts
    that METIS numbers one after the other, which are near each other, where they do not. In bits,
    so from 0 to 1; ``within_root`` and ``between_root`` are means of the square roots, the distance
    that scipy computes, in nats.
    """

    trains = False
    caption = "Divergence of label distributions"

    def findings(self, experiment: Experiment) -> Findings:
        whole = load_whole(experiment)
        labels = PartitionStatistics(whole, parties_of(experiment, whole)).labels
        shares = labels / labels.sum(1, keepdims=True)
        divergence = jensen_shannon(shares[:, None], shares[None])
        community = np.arange(len(shares)) // _TOGETHER
        same = community[:, None] == community
        pair = ~np.eye(len(shares), dtype=bool)
        figures = {}
        for name, chosen in (("within", same & pair), ("between", ~same)):
            found = divergence[chosen]
            figures[name] = float(found.mean()) if len(found) else float("nan")
            roots = np.sqrt(found * np.log(2))
            figures[f"{name}_root"] = float(roots.mean()) if len(found) else float("nan")
        return Findings(figures)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """In bits, over the last axis."""
    middle = (p + q) / 2

    def relative(a: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(a > 0, a * np.log2(a / middle), 0.0)
        total: np.ndarray = terms.sum(-1)
        return total

    found: np.ndarray = np.maximum((relative(p) + relative(q)) / 2, 0)
    return found
