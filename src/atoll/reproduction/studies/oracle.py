"""A model of the whole graph, on the parts that clients would hold."""

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, load_whole, parties_of, simulate
from atoll.reproduction.studies.base import Findings, Study, studies
from atoll.tree import replicated, under


@studies.register("oracle")
class Oracle(Study):
    """Train on the whole graph with all its edges, score on each client's subgraph (FED-PUB, C.9).

    ``subgraphs`` is the mean test accuracy over clients, each on its own nodes and edges, in the
    round with the best mean validation accuracy there; ``whole`` that of the same model on the
    whole graph.
    """

    caption = "Test accuracy in percent"

    def findings(self, experiment: Experiment) -> Findings:
        method = experiment.method
        if not method.pooled:
            raise AtollError(
                f"{method.registered_name} never sees the whole graph; choose centralized for the "
                f"study 'oracle'."
            )
        fed, state = simulate(experiment, load_parties(experiment))
        whole = fed.host.cohort
        cohort = Cohort(parties_of(experiment, load_whole(experiment)), dtype=whole.dtype)
        best = (-1.0, 0.0, 0.0, 0)
        for r in range(1, experiment.run.rounds + 1):
            fed.begin(r)
            state = method.round(fed, state, r)
            model = under(fed.host.state, "model")
            everywhere = replicated({name: p[0] for name, p in model.items()}, cohort.k)
            parts, all_edges = (
                100 * method.task.scores(method.model, params, on)["accuracy"].nanmean(0)
                for params, on in ((everywhere, cohort), (model, whole))
            )
            best = max(best, (float(parts[1]), float(parts[2]), float(all_edges[2]), r))
        return Findings({"subgraphs": best[1], "whole": best[2]}, best_round=best[3])

    def default_figure(self, experiment: Experiment) -> str:
        return "subgraphs"
