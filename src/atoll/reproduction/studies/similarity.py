"""Whether clients whose models are similar have similar labels."""

import numpy as np

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, load_whole, parties_of, simulate
from atoll.partition.statistics import PartitionStatistics
from atoll.reproduction.studies.base import Findings, Study, studies


@studies.register("similarity")
class Similarity(Study):
    """The similarity that a server computes, against that of labels and against missing edges.

    For methods whose server's state has a ``similarity`` (fed-pub). ``correlation`` is
    Pearson's, over all pairs of different clients, of the last round's similarity with the cosine
    of the clients' label counts; ``correlation@R`` is that of round R. For heatmaps:
    ``similarity@R``, ``labels``, ``missing``, whose numbers are means over these pairs.
    """

    caption = "Correlation of the server's similarity with that of labels"

    def findings(self, experiment: Experiment) -> Findings:
        fed, state = simulate(experiment, load_parties(experiment))
        if "similarity" not in state:
            raise AtollError(
                f"{experiment.method.registered_name} does not compare clients, so there is no "
                f"similarity to study; use fed-pub."
            )
        whole = load_whole(experiment)
        cut = PartitionStatistics(whole, parties_of(experiment, whole))
        arrays = {"labels": _cosine(cut.labels), "missing": cut.missing.astype(float)}
        figures: dict[str, float] = {}
        pairs = np.triu_indices(len(cut.parties), 1)
        for r in range(1, experiment.run.rounds + 1):
            fed.begin(r)
            state = experiment.method.round(fed, state, r)
            found = state["similarity"]["between"].cpu().numpy()
            arrays[f"similarity@{r}"] = found
            correlation = float(np.corrcoef(found[pairs], arrays["labels"][pairs])[0, 1])
            figures[f"correlation@{r}"] = figures["correlation"] = correlation
        means = {name: float(matrix[pairs].mean()) for name, matrix in arrays.items()}
        return Findings(figures | means, arrays)

    def default_figure(self, experiment: Experiment) -> str:
        return "correlation"


def _cosine(rows: np.ndarray) -> np.ndarray:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similarity: np.ndarray = unit @ unit.T
    return similarity
