"""The other end of a worker: a process that does rounds on one side, and answers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from atoll.errors import AtollError

HERE = Path(__file__).parents[1]


class Side:
    """A process that does rounds on one side."""

    def __init__(self, name: str, python: Path, more_paths: tuple[Path, ...] = ()) -> None:
        self.name = name
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed at exit
        paths = os.pathsep.join(map(str, (HERE, *more_paths)))
        self.process = subprocess.Popen(
            [python, "-m", f"beside.{name}_side"],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )
        self.versions = self._answer()

    def ask(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            last = self.log.read().strip().splitlines()[-1:] or ["without a word"]
            raise AtollError(
                f"the side '{self.name}' ended: {last[0]}; leave it out with --without {self.name}."
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()
