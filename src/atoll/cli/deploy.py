"""Commands that deploy: up, keys, server, client, submit, status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.experiments import _progress, _show
from atoll.cli.options import ALL_OPTIONS, AsJson, experiment, with_options

Choices = dict[str, Any]
_RUN_OPTIONS = tuple(n for n in ALL_OPTIONS if n not in ("data", "partition", "owner", "clients"))
Engine = Annotated[str, typer.Option(help="nvflare or flower.")]
Deadline = Annotated[float, typer.Option(help="Seconds a site has for one request.")]
Quorum = Annotated[int, typer.Option(help="Sites that a round needs; 0: more than half.")]
Patience = Annotated[float, typer.Option(help="Seconds to wait for a quorum before stopping.")]
Anchors = Annotated[
    str,
    typer.Option(help="psi: matched privately; hash: salted hashes, which a dictionary undoes."),
]
Network = Annotated[
    Path | None,
    typer.Option(help="CSV of linked sites, for methods whose server knows the network."),
]


@with_options(_RUN_OPTIONS)
def up(
    choices: Choices,
    sites: Annotated[Path, typer.Option(help="Folder of the sites' folders, from: atoll split.")],
    engine: Engine = "nvflare",
    deadline: Deadline = 600.0,
    quorum: Quorum = 0,
    patience: Patience = 600.0,
    anchors: Anchors = "psi",
    network: Network = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: a new one in runs/).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a real federation on this machine: a server and one node a site, on loopback, secured.

    Gives the result of atoll run on the same folders. Everything is ended and cleaned up
    afterwards, also on Ctrl-C; continue an interrupted run with: atoll resume.
    """
    from atoll.deploy.plan import Terms
    from atoll.deploy.up import up as bring_up
    from atoll.experiment.config import build

    values = {"deadline": deadline, "quorum": quorum, "patience": patience, "anchors": anchors}
    terms = build(Terms, "terms", values)
    chosen = experiment(choices | {"data": f"{sites}/"})
    with _progress(chosen) as advance:
        result = bring_up(str(sites), chosen, engine, terms, out, advance, network)
    _show([result], as_json)
