"""The command tune, and what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.comparisons import progress_over_runs
from atoll.cli.options import ALL_OPTIONS, AsJson, described_choices, with_options

if TYPE_CHECKING:
    from atoll.tuning.outcome import Tuning


@with_options(ALL_OPTIONS)
def tune(
    choices: dict[str, Any],
    over: Annotated[
        list[str],
        typer.Option(
            metavar="SECTION.KEY=RANGE",
            help="A setting to search: 0.001..0.1, 0.001..0.1:log, 1..4 or [0.1, 1]; repeat it.",
        ),
    ],
    trials: Annotated[int, typer.Option(help="How many settings to try.")] = 20,
    seeds: Annotated[int, typer.Option(help="Runs per trial, one per seed from --seed on.")] = 1,
    prune: Annotated[
        bool, typer.Option(help="Give up trials in the worst quarter of those before.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder (default: a new one in runs/); goes on with what it holds."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search settings by their validation score; test scores have no say in it.

    Writes best.toml, which atoll run takes. After Ctrl-C or a kill, atoll resume goes on to the
    same result; the same command with more --trials adds to what is there.
    """
    from atoll.tuning.space import parsed
    from atoll.tuning.tune import Search
    from atoll.tuning.tune import tune as do_trials

    search = Search(described_choices(choices), parsed(over), trials, seeds, prune)
    with progress_over_runs("tune") as watch:
        found = do_trials(search, out, watch)
    show_tuning(found, as_json)


def show_tuning(found: Tuning, as_json: bool) -> None:
    """The best trials, the importance of settings, and how to go on."""
    from atoll.report.console import console
    from atoll.report.tuning import importance_table, trials_table

    if as_json:
        print(json.dumps(found.summary()))
        return
    screen = console()
    screen.print(trials_table(found))
    if found.importance:
        screen.print(importance_table(found))
    screen.print(f"kept in {found.out}", style="dim", soft_wrap=True)
    screen.print(f"Run the best with: atoll run {found.best_config}", soft_wrap=True, markup=False)
