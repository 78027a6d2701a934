"""Weights & Biases: a run of the project that WANDB_PROJECT names, or ``atoll``."""

from __future__ import annotations

import os
from pathlib import Path

from atoll.experiment.callbacks import Told
from atoll.experiment.config import Experiment, describe
from atoll.experiment.result import Result
from atoll.loggers.base import Logger, files_of, loggers, scalars


@loggers.register("wandb")
class WandB(Logger):
    """Settings as config, scores by round, the run's small files as an artifact."""

    library = "wandb"

    def start(self, experiment: Experiment, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.run = self.module.init(
            project=os.environ.get("WANDB_PROJECT", "atoll"),
            name=run_dir.name,
            dir=str(run_dir),
            config=describe(experiment),
        )

    def round(self, told: Told) -> None:
        self.run.log(dict(scalars(told)), step=told.round)

    def end(self, result: Result | None) -> None:
        if result is not None:
            artifact = self.module.Artifact(self.run_dir.name, type="run")
            for path in files_of(self.run_dir):
                artifact.add_file(str(path))
            self.run.log_artifact(artifact)
        self.run.finish(exit_code=int(result is None))
