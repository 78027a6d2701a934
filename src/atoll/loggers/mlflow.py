"""MLflow: a run on the tracking server that MLFLOW_TRACKING_URI names, or in a local folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from atoll.experiment.callbacks import Told
from atoll.experiment.config import Experiment, describe
from atoll.experiment.result import Result
from atoll.loggers.base import Logger, files_of, flattened, loggers, scalars

# What MLflow's servers take at once.
_BATCH = 1000


@loggers.register("mlflow")
class MLflow(Logger):
    """Settings as parameters, scores as metrics by round, the run's small files as artifacts."""

    library = "mlflow"

    def start(self, experiment: Experiment, run_dir: Path) -> None:
        self.client, self.run_dir = self.module.MlflowClient(), run_dir
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "atoll")
        there = self.client.get_experiment_by_name(name)
        place = self.client.create_experiment(name) if there is None else there.experiment_id
        self.run = self.client.create_run(place, run_name=run_dir.name).info.run_id
        for path, value in flattened(describe(experiment)).items():
            self.client.log_param(self.run, path, value)

    def round(self, told: Told) -> None:
        now = int(1000 * time.time())
        metrics = [
            self.module.entities.Metric(name, value, now, told.round)
            for name, value in scalars(told)
        ]
        for first in range(0, len(metrics), _BATCH):
            self.client.log_batch(self.run, metrics=metrics[first : first + _BATCH])

    def end(self, result: Result | None) -> None:
        if result is not None:
            for path in files_of(self.run_dir):
                self.client.log_artifact(self.run, str(path))
        self.client.set_terminated(self.run, "KILLED" if result is None else "FINISHED")
