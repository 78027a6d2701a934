"""The command about what leaves a site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import ALL_OPTIONS, AsJson, experiment, with_options
from atoll.errors import AtollError

Choices = dict[str, Any]


@with_options(tuple(name for name in ALL_OPTIONS if name != "recipe"))
def audit(
    choices: Choices,
    subject: Annotated[
        Path | None,
        typer.Argument(metavar="RUN_DIR", help="A run directory; or a TOML file with settings."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a Markdown page with one table per method.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what leaves a site: which tensors, in which steps, how often, and what never does.

    Given a run directory, what crossed in that run. Given a method, what it sends in its first
    rounds (--rounds, 3 by default), found by running them here: on the data named, or on small
    built-in parties. Nothing is kept.
    """
    if page is not None:
        if subject is not None or any(value for value in choices.values()):
            raise AtollError("--page is about every method as it is by default; give it alone.")
        _write_page(page)
        return
    from atoll.experiment.audit import audit_method, audit_run
    from atoll.experiment.trial import ROUNDS
    from atoll.report.audit import audit_shown
    from atoll.report.tables import console

    if subject is not None and not subject.is_file():
        given = [f"--{name}" for name, value in choices.items() if value]
        if given:
            raise AtollError(
                f"'{subject}' is audited as it was run, so {given[0]} means nothing; leave it out."
            )
        found = audit_run(subject)
    else:
        small = subject is None and choices["data"] is None
        rounds = choices["rounds"] or ROUNDS
        found = audit_method(experiment(choices | {"recipe": subject}), rounds, small)
    if as_json:
        print(json.dumps(found.facts()))
    else:
        console().print(audit_shown(found))


def _write_page(page: Path) -> None:
    from atoll.experiment.audit import audit_method
    from atoll.experiment.trial import ROUNDS
    from atoll.files import write_text
    from atoll.methods.base import methods
    from atoll.report.audit import audit_page

    chosen = (experiment({"method": name}) for name in methods)
    text = audit_page(audit_method(one, ROUNDS, small=True) for one in chosen)
    if page.is_dir():
        raise AtollError(f"'{page}' is a folder; name a file for the page.")
    write_text(page, text)
    print(f"wrote {page}")
