"""The command about what leaves a site."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.options import ALL_OPTIONS, AsJson, experiment, with_options
from atoll.errors import AtollError

if TYPE_CHECKING:
    from atoll.deploy.evidence.verify import Verdict

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
    policy: Annotated[
        Path | None,
        typer.Option(help="Hold the method against a site's policy instead; exit code 1: refused."),
    ] = None,
    party: Annotated[
        Path | None, typer.Option(help="The site's folder of data, for --policy.")
    ] = None,
    site: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="STATE_DIR", help="A site's state folder, to hold its record against the run's."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what leaves a site: which tensors, in which steps, how often, and what never does.

    Given a run directory, what crossed in that run; if it was deployed, whether the record of its
    messages is whole (exit code 1: it is not), also against sites' own. Given a method, what it
    sends in its first rounds (--rounds, 3 by default), found by running them here: on the data
    named, or on small built-in parties. Nothing is kept. With --policy: which lines of a site's
    policy it passes.
    """
    if policy is not None or party is not None:
        _hold_against(policy, party, subject, choices, as_json)
        return
    if page is not None:
        if subject is not None or any(value for value in choices.values()):
            raise AtollError("--page is about every method as it is by default; give it alone.")
        _write_page(page)
        return
    from atoll.experiment.audit import audit_method, audit_run
    from atoll.experiment.trial import ROUNDS
    from atoll.report.audit import audit_shown
    from atoll.report.console import console
    from atoll.report.trust import evidence_shown

    if subject is not None and not subject.is_file():
        given = [f"--{name}" for name, value in choices.items() if value]
        if given:
            raise AtollError(
                f"'{subject}' is audited as it was run, so {given[0]} means nothing; leave it out."
            )
        found = audit_run(subject)
        evidence = _evidence(subject, site or [])
    else:
        if site:
            raise AtollError("--site is about a run that was made; name its directory.")
        evidence = None
        small = subject is None and choices["data"] is None
        rounds = choices["rounds"] or ROUNDS
        found = audit_method(experiment(choices | {"recipe": subject}), rounds, small)
    if as_json:
        more = {} if evidence is None else {"evidence": asdict(evidence)}
        print(json.dumps(found.facts() | more))
    else:
        console().print(audit_shown(found))
        if evidence is not None:
            console().print(evidence_shown(evidence))
    if evidence is not None and evidence.problems:
        raise typer.Exit(1)


def _evidence(run_dir: Path, states: Sequence[Path]) -> Verdict | None:
    """What the record of a deployed run's messages is worth; a simulation has none."""
    from atoll.deploy.evidence.verify import verified
    from atoll.deploy.plan import is_deployed

    if is_deployed(run_dir):
        return verified(run_dir, states)
    if states:
        raise AtollError(f"'{run_dir}' was simulated: no site has a record of it; drop --site.")
    return None


def _hold_against(
    file: Path | None, folder: Path | None, recipe: Path | None, choices: Choices, as_json: bool
) -> None:
    """Show which lines of a policy a run passes; exit with 1 if one fails."""
    from atoll.deploy.policy.judging import passes
    from atoll.deploy.policy.preview import run_judged
    from atoll.report.console import console
    from atoll.report.trust import policy_shown

    if recipe is not None and not recipe.is_file():
        raise AtollError(
            f"a policy is about runs to come, and '{recipe}' is no file with settings; name a "
            f"method with --method."
        )
    chosen = experiment(choices | {"recipe": recipe})
    rules, lines = run_judged(file, chosen, folder)
    if as_json:
        facts = [{"rule": x.rule, "passed": x.passed, "why": x.why} for x in lines]
        print(json.dumps({"admitted": passes(lines), "policy": rules.name, "lines": facts}))
    else:
        console().print(policy_shown(chosen.method.registered_name, rules.name, lines))
    if not passes(lines):
        raise typer.Exit(1)


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
