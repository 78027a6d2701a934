"""TensorBoard: an event file in the run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tomli_w

from atoll.experiment.callbacks import Told
from atoll.experiment.config import Experiment, describe
from atoll.experiment.result import Result
from atoll.loggers.base import Logger, loggers, scalars


@loggers.register("tensorboard")
class TensorBoard(Logger):
    """Scalars of all clients and their means, in ``RUN/tensorboard``."""

    library = "torch.utils.tensorboard"

    def start(self, experiment: Experiment, run_dir: Path) -> None:
        self.folder = run_dir / "tensorboard"
        self.config = tomli_w.dumps(describe(experiment))
        self.writer: Any = None

    def round(self, told: Told) -> None:
        if self.writer is None:
            # Rounds that a killed run had logged beyond its checkpoint come a second time.
            self.writer = self.module.SummaryWriter(str(self.folder), purge_step=told.round)
            self.writer.add_text("config", _as_code(self.config), told.round)
        for name, value in scalars(told):
            self.writer.add_scalar(name, value, told.round)

    def end(self, result: Result | None) -> None:
        if self.writer is None:
            return
        if result is not None:
            text = _as_code(json.dumps(result.summary(), indent=2))
            self.writer.add_text("summary", text, int(result.figures["rounds"]))
        self.writer.close()


def _as_code(text: str) -> str:
    """TensorBoard shows Markdown, in which four spaces are code."""
    return "\n".join(f"    {line}" for line in text.splitlines())
