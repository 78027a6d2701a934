"""What the command compare shows, while it runs and at its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast, get_args

from atoll.cli.screen import progress_bar, show_results

if TYPE_CHECKING:
    from atoll.comparison.outcome import Comparison, Which
    from atoll.comparison.runs import Watch


def chosen_sites(text: str) -> Which:
    """The option --sites, checked."""
    from atoll.comparison.outcome import Which
    from atoll.options import not_a_choice

    if text not in get_args(Which):
        raise not_a_choice("--sites", text, get_args(Which))
    return cast("Which", text)


def show_comparison(found: Comparison, which: Which, as_json: bool) -> None:
    """With one seed its runs; with several the methods' differences and the sites' verdicts."""
    from atoll.comparison.compare import results_of
    from atoll.report.console import console
    from atoll.report.joining import pages

    if as_json:
        print(json.dumps(found.summary()))
        return
    screen = console()
    if len(found.plan.seeds) == 1:
        show_results(results_of(found), as_json, kept_in=found.out)
        return
    for page in pages(found, which):
        screen.print(page, soft_wrap=isinstance(page, str))
    screen.print(f"kept in {found.out}", style="dim", soft_wrap=True)


@contextmanager
def progress_over_runs(name: str = "compare") -> Iterator[Watch]:
    """One bar over the rounds of all runs, with the time left; shown once a round is done."""
    with progress_bar() as bar:
        task = bar.add_task(name, total=None, note="")

        def watch(done: int, total: int, note: str) -> None:
            if not bar.live.is_started:
                bar.start()
                # What was done before this process does not count as its speed.
                bar.reset(task, completed=done, total=total)
            bar.update(task, completed=done, total=total, note=note)

        yield watch
