"""Commands that show what runs have found: plot, report, watch."""

from __future__ import annotations

import signal
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from atoll.errors import AtollError


class Kind(Enum):
    convergence = "convergence"
    clients = "clients"
    gain = "gain"
    similarity = "similarity"
    communication = "communication"
    confusion = "confusion"
    pr = "pr"


Folders = Annotated[
    list[Path],
    typer.Argument(metavar="DIR...", help="Directories of runs, comparisons or studies."),
]
NoData = Annotated[
    bool, typer.Option("--no-data", help="Don't load the data again: no partition, no graph.")
]


def plot(
    folders: Folders,
    kind: Annotated[Kind, typer.Option(help="What to draw.")] = Kind.convergence,
    out: Annotated[Path, typer.Option(help="A file ending in .pdf, .svg or .png.")] = Path(
        "figure.pdf"
    ),
) -> None:
    """Draw one picture of finished runs, for a paper or a talk."""
    from atoll.report.figures import draw, save

    save(draw(folders, kind.value), out)
    print(f"wrote {out}")


def report(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    no_data: NoData = False,
) -> None:
    """Write one page with everything that was found; it needs no network."""
    from atoll.files import write_text
    from atoll.report.html_page import report_page

    if out.is_dir():
        raise AtollError(f"'{out}' is a folder; name a file for the page.")
    page = report_page(folders, not no_data)
    try:
        write_text(out, page)
    except OSError as problem:
        raise AtollError(
            f"'{out}' can't be written to ({problem.strerror}); choose another --out."
        ) from None
    print(f"wrote {out} ({len(page.encode()) / 1000:.0f} kB)")


def watch(
    folders: Folders,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.2, help="Between two looks at the files.")] = 2.0,
    no_data: NoData = False,
) -> None:
    """Show the report of runs in a browser of this machine while they go on; Ctrl-C ends it.

    The address has a secret in it: who has it and is logged in to this machine can read the page.
    """
    from atoll.report.live import serve

    with serve(folders, port, seconds, not no_data) as address:
        print(f"open {address} (Ctrl-C ends it)", flush=True)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        stop.wait()
    print("atoll: stopped watching", file=sys.stderr)
