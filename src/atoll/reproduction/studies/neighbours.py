"""How a client's model does on the subgraph next door."""

from atoll.device import of_numpy
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, load_whole, parties_of, simulate
from atoll.partition.statistics import PartitionStatistics
from atoll.reproduction.studies.base import Findings, Study, studies
from atoll.tree import under


@studies.register("neighbours")
class Neighbours(Study):
    """Each subgraph scored with its own client's model and with its neighbour's (FED-PUB, Fig. 9).

    A client's neighbour is the one with most missing edges to it. ``own`` and ``neighbour`` are
    the mean test accuracies, both in the round with the best mean validation accuracy of the own
    models.
    """

    caption = "Test accuracy in percent"

    def findings(self, experiment: Experiment) -> Findings:
        method, parties = experiment.method, load_parties(experiment)
        fed, state = simulate(experiment, parties)
        whole = load_whole(experiment)
        missing = of_numpy(PartitionStatistics(whole, parties_of(experiment, whole)).missing)
        neighbour = missing.fill_diagonal_(-1).argmax(dim=1)
        best = (-1.0, 0.0, 0.0, 0)
        for r in range(1, experiment.run.rounds + 1):
            fed.begin(r)
            state = method.round(fed, state, r)
            own_K = under(fed.host.state, "model")
            theirs_K = {name: p[neighbour] for name, p in own_K.items()}
            own, theirs = (
                100 * method.task.scores(method.model, p, fed.host.cohort)["accuracy"].nanmean(0)
                for p in (own_K, theirs_K)
            )
            best = max(best, (float(own[1]), float(own[2]), float(theirs[2]), r))
        return Findings({"own": best[1], "neighbour": best[2]}, best_round=best[3])

    def default_figure(self, experiment: Experiment) -> str:
        return "own"
