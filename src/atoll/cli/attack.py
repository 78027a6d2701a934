"""`atoll attack`: what the messages of a run tell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.options import AsJson
from atoll.cli.screen import progress_bar


def attack(
    run_dir: Annotated[Path, typer.Argument(help="A run with run.keep_messages=true.")],
    attacks: Annotated[
        list[str] | None,
        typer.Argument(
            help="link-stealing, membership, gradient-inversion, feature-inversion "
            "(default: all of them)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a run by what was really sent in it, as its server and as one of its clients.

    Each score stands beside that of guessing and beside what raw features give without messages.
    """
    import json

    from atoll.experiment.leaks import attacked
    from atoll.report.console import console
    from atoll.report.leaks import leak_table

    with progress_bar() as bar:
        task = bar.add_task("attack", total=None, note="")

        def advance(what: str, done: int, of: int) -> None:
            bar.start()
            bar.update(task, completed=done, total=of, note=what)

        found = attacked(run_dir, attacks or (), advance)
    if as_json:
        print(json.dumps([finding.row() for finding in found]))
    else:
        console().print(leak_table(found))
