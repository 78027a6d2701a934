"""How the clients of each community do."""

import numpy as np
import polars

from atoll.data.community_graphs import CommunityGraphs
from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result
from atoll.reproduction.studies.base import Findings, studies
from atoll.reproduction.studies.run import Run, of_result


@studies.register("communities")
class Communities(Run):
    """Train on communities of subgraphs; the mean over each community's clients (FED-PUB, Fig. 1).

    ``community_1``, ``community_2`` and so on, in the data's order, are test accuracies in the
    round with the best mean validation accuracy of all clients, and curves over rounds.
    """

    caption = "Test accuracy in percent, mean over a community's clients"

    def findings(self, experiment: Experiment) -> Findings:
        if not isinstance(experiment.data, CommunityGraphs):
            raise AtollError(
                f"the data '{experiment.data.registered_name}' has no communities of clients; "
                f"choose fed-pub-figure-1 or fed-pub-figure-3."
            )
        return super().findings(experiment)

    def of(self, result: Result) -> Findings:
        found = of_result(result)
        data = result.experiment.data
        assert isinstance(data, CommunityGraphs)
        community = np.repeat(np.arange(1, len(data.subgraphs) + 1), data.subgraphs)
        of_client = polars.Series("community", community).gather(result.history["client"])
        means = (
            result.history.with_columns(of_client)
            .group_by("round", "community")
            .agg(polars.col("test_accuracy").mean() * 100)
            .sort("round")
        )
        curves = {
            f"community_{c}": means.filter(polars.col("community") == c)["test_accuracy"].to_numpy()
            for c in range(1, len(data.subgraphs) + 1)
        }
        at = found.arrays["round"].tolist().index(found.best_round)
        figures = {name: float(curve[at]) for name, curve in curves.items()}
        return Findings(found.figures | figures, found.arrays | curves, found.best_round)

    def default_figure(self, experiment: Experiment) -> str:
        return "community_1"
