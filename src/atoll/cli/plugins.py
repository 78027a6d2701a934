"""Commands for code of your own: new, laws."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.options import AsJson
from atoll.errors import AtollError


class Part(Enum):
    method = "method"
    model = "model"
    partition = "partition"
    data = "data"
    task = "task"


def new(
    part: Annotated[Part, typer.Argument(help="What to write.")],
    name: Annotated[str, typer.Argument(help="Its name, e.g. fed-mine.")],
) -> None:
    """Write a component of your own and its test into this folder; both work as they are."""
    from atoll.scaffold import scaffold

    made = scaffold(part.value, name, Path.cwd())
    print(f"wrote {made.file.name} and {made.test.name}; next:")
    for command in made.next_commands:
        print(f"  {command}")


def laws(
    method: Annotated[str, typer.Argument(help="FILE.py:CLASS, or a name: atoll list methods.")],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="An option of the method."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try whether a method keeps the laws that all methods keep; exits with 1 if it breaks one.

    On small built-in parties, in seconds. What breaks is shown with the first round, client and
    tensor that are wrong, and what to look for.
    """
    from atoll.experiment.choices import choose
    from atoll.experiment.config import setting as setting_of
    from atoll.laws import LAWS, check_laws, subject_of

    chosen = choose(method=method, settings=[setting_of(text) for text in setting or []]).method
    if "nodes" not in chosen.tasks:
        raise AtollError(f"the laws are about node classification, which {method} does not know.")
    found = []
    for finding in check_laws(subject_of(chosen)):
        found.append(finding)
        if as_json:
            continue
        print(f"{finding.verdict:<16}{finding.law.name}: {finding.law.says}")
        if finding.broken:
            print(f"{'':<16}{finding.broken}.\n{'':<16}Look for: {finding.law.look_for}.")
    broken = [finding for finding in found if finding.broken]
    if as_json:
        facts = [
            {"law": f.law.name, "says": f.law.says, "verdict": f.verdict, "broken": f.broken or ""}
            for f in found
        ]
        print(json.dumps(facts))
    elif len(found) < len(LAWS):
        print("It does not get through three rounds, so the other laws were not tried.")
    else:
        kept = sum(f.verdict == "kept" for f in found)
        print(f"{chosen.registered_name}: {kept} laws kept, {len(broken)} broken.")
    if broken:
        raise typer.Exit(1)
