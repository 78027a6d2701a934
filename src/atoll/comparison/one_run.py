"""One run of many, begun or gone on with in its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from atoll.comparison.plan import Step
from atoll.errors import AtollError, Interrupted
from atoll.experiment.runner import Progress, continued, run_experiment


def do_run(step: Step, folder: Path, progress: Progress) -> None:
    """A run from where it was left."""
    try:
        if (folder / "config.toml").is_file():
            continued(step.experiment, folder, progress)
        else:
            if folder.exists():  # killed before its config was whole
                shutil.rmtree(folder)
            run_experiment(step.experiment, folder, progress)
    except Interrupted:
        raise
    except AtollError as problem:
        raise AtollError(f"{step.label}, seed {step.seed}: {problem}") from problem
