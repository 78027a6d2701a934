"""Training on data drawn anew for each seed, as GFL repeats its experiments."""

from dataclasses import fields, replace

import numpy as np
import polars

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.result import Result
from atoll.graph import SPLITS
from atoll.reproduction.studies.base import Findings, studies
from atoll.reproduction.studies.run import Run, of_result

# Curves have one point per so many updates, whatever the number of updates per round.
UPDATES_PER_POINT = 50


@studies.register("fresh-data")
class FreshData(Run):
    """Train on data of the run's own seed; read figures where the validation loss is least.

    Wu et al., 2022, Appendix A.2: repetitions fix the network and draw the data anew, and the
    model with the lowest validation loss is the one that is tested. Losses are there as curves,
    too, with one point per 50 updates (or per round, if that has more).
    """

    caption = "Scores in percent, in the round of the lowest validation loss"

    def findings(self, experiment: Experiment) -> Findings:
        if "seed" not in {f.name for f in fields(experiment.data)}:
            raise AtollError(
                f"the data '{experiment.data.registered_name}' can't be drawn anew: it has no "
                f"data.seed; measure it by 'run'."
            )
        data = replace(experiment.data, seed=experiment.run.seed)  # type: ignore[call-arg]
        return super().findings(replace(experiment, data=data))

    def of(self, result: Result) -> Findings:
        found = of_result(result)
        names = [name for name in result.history.columns if name.startswith(SPLITS)]
        means = result.history.group_by("round").agg(polars.col(*names).mean()).sort("round")
        best = means["val_loss"].arg_min()
        if best is None:
            raise AtollError("no client has a validation loss, so no round can be chosen.")
        chosen = {
            name: float(means[name][best]) * (1 if name.endswith("_loss") else 100)
            for name in names
            if means[name][best] is not None  # areas, where a split has one class only
        }
        every = max(1, UPDATES_PER_POINT // result.experiment.method.epochs)
        curves = {
            name: np.asarray(means[name])[every - 1 :: every]
            for name in names
            if name.endswith("_loss")
        }
        return Findings(found.figures | chosen, found.arrays | curves, int(means["round"][best]))
