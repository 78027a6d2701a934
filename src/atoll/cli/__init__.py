"""The command line: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from atoll.cli import (
    attack,
    audit,
    check,
    data,
    deploy,
    experiments,
    keys,
    pictures,
    plugins,
    policy,
    studies,
    tuning,
    use,
)
from atoll.cli.quiet import WithQuiet
from atoll.errors import AtollError, Interrupted

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Federated learning on graphs: simulate, compare and reproduce methods.\n\n"
    "Try [bold]atoll run[/bold] for one experiment on built-in data, "
    "[bold]atoll compare[/bold] to see whether joining pays, and "
    "[bold]atoll list methods[/bold] for what there is.",
)
for command in (
    experiments.run,
    experiments.compare,
    experiments.resume,
    experiments.reproduce,
    studies.study,
    tuning.tune,
    pictures.plot,
    pictures.report,
    pictures.watch,
    use.predict,
    use.embed,
    use.export,
    check.check,
    data.list_,
    data.describe,
    data.split,
    data.fetch,
    audit.audit,
    attack.attack,
    policy.policy,
    plugins.new,
    plugins.laws,
    deploy.up,
    keys.keys,
    deploy.server,
    deploy.client,
    deploy.submit,
    deploy.status,
):
    app.command(command.__name__.rstrip("_"), cls=WithQuiet)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version
        from platform import python_version

        torch = version("torch")
        print(f"atoll {version('atoll')} (torch {torch}, python {python_version()})")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the versions of Atoll, torch and Python.",
        ),
    ] = False,
) -> None:
    """What can be given without a command."""


def main() -> None:
    """Entry point: errors a user can mend are one sentence and exit code 2."""
    logging.basicConfig(stream=sys.stderr, format="atoll: %(message)s", level=logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name.startswith("atoll"))  # engines are talkative
    try:
        app()
    except Interrupted as stop:
        print(f"atoll: {stop}", file=sys.stderr)
        sys.exit(130)
    except AtollError as problem:
        print(f"atoll: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("atoll: stopped at once; the last checkpoint can be resumed.", file=sys.stderr)
        sys.exit(130)
