"""``--quiet``, which every command has: results and errors, nothing else."""

from __future__ import annotations

import logging
from typing import Any

import click
from typer.core import TyperCommand, TyperOption

_KEY = "atoll.quiet"


def is_quiet() -> bool:
    """Whether the command that runs was called with ``--quiet``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_KEY))


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


def _be_quiet(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    context.meta[_KEY] = wanted
    logging.getLogger("atoll").setLevel(logging.ERROR if wanted else logging.NOTSET)
