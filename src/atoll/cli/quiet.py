"""``--quiet``, which every command has: results and errors, nothing else."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from typer.core import TyperCommand, TyperOption

_quiet = ContextVar("quiet", default=False)


def is_quiet() -> bool:
    """Whether the last command of this process was called with ``--quiet``."""
    return _quiet.get()


class WithQuiet(TyperCommand):
    """A command that can be told to show no progress and no warnings."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.params.append(
            TyperOption(
                param_decls=["--quiet", "-q"],
                is_flag=True,
                expose_value=False,
                callback=_be_quiet,
                help="Show results and errors only: no progress, no warnings.",
            )
        )


def _be_quiet(_context: Any, _parameter: Any, wanted: bool) -> None:
    _quiet.set(wanted)
    logging.getLogger("atoll").setLevel(logging.ERROR if wanted else logging.NOTSET)
