"""Commands that deploy: up, server, client, submit, status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import ALL_OPTIONS, AsJson, experiment, with_options
from atoll.cli.screen import progress, said, show_results

Choices = dict[str, Any]
_RUN_OPTIONS = tuple(n for n in ALL_OPTIONS if n not in ("data", "partition", "owner", "clients"))
Engine = Annotated[str, typer.Option(help="nvflare or flower.")]
Deadline = Annotated[float, typer.Option(help="Seconds a site has for one request.")]
Quorum = Annotated[int, typer.Option(help="Sites that a round needs; 0: more than half.")]
Patience = Annotated[float, typer.Option(help="Seconds to wait for a quorum before stopping.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", help="What a site lets be done with its data, from: atoll policy."),
]
Network = Annotated[
    Path | None,
    typer.Option(help="CSV of linked sites, for methods whose server knows the network."),
]


@with_options(_RUN_OPTIONS)
def up(
    choices: Choices,
    sites: Annotated[
        Path, typer.Option(help="Folder of the sites' folders: from atoll split, or by hand.")
    ],
    engine: Engine = "nvflare",
    deadline: Deadline = 600.0,
    quorum: Quorum = 0,
    patience: Patience = 600.0,
    network: Network = None,
    policy: PolicyFile = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: a new one in runs/).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a real federation on this machine: a server and one process per site, secured.

    Gives the result of atoll run on the same folders. Everything is ended and cleaned up
    afterwards, also on Ctrl-C; continue an interrupted run with: atoll resume. The sites admit what
    this run needs and no more; with --policy they keep to that file instead, and may refuse.
    """
    from atoll.deploy.plan import Terms
    from atoll.deploy.up import up as bring_up
    from atoll.experiment.fields import build

    values = {"deadline": deadline, "quorum": quorum, "patience": patience}
    terms = build(Terms, "terms", values)
    chosen = experiment(choices | {"data": f"{sites}/"})
    with progress(chosen) as advance:
        result = bring_up(str(sites), chosen, engine, terms, out, advance, network, said, policy)
    show_results([result], as_json)


def server(
    kits: Annotated[Path, typer.Option(help="Folder with 'server' and 'operator'.")] = Path("kits"),
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on, for Flower (default: all; loopback if local)."),
    ] = None,
) -> None:
    """Serve a federation: listens for sites, and sees submitted runs through.

    Runs until a signal ends it. A run that was interrupted is continued at the next start.
    """
    from atoll.deploy.service import serve

    serve(kits, runs, host)


def client(
    data: Annotated[Path, typer.Option(help="This site's folder of data.")],
    kit: Annotated[Path, typer.Option(help="This site's folder from: atoll keys.")],
    state: Annotated[
        Path | None, typer.Option(help="Durable folder for private state (default: in the kit).")
    ] = None,
    admit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="A plug-in that runs may use here, if its file is the coordinator's to the byte.",
        ),
    ] = None,
    fewest_shared: Annotated[
        int, typer.Option(help="Nodes shared with another site are kept secret if fewer than this.")
    ] = 10,
    largest_list: Annotated[
        int, typer.Option(help="The longest list of another site's nodes to be matched with.")
    ] = 1_000_000,
    policy: PolicyFile = None,
) -> None:
    """Take part with this site's data. Dials out only; nothing listens to the network here.

    What runs may do here is said by the policy: that of --policy, else policy.toml in the kit, else
    the built-in one, which atoll policy shows.
    """
    from atoll.deploy.kits import run_client
    from atoll.deploy.matching import Limits

    limits = Limits(fewest_shared=fewest_shared, largest_list=largest_list)
    raise typer.Exit(run_client(data, kit, state or kit / "state", admit or (), limits, policy))


@with_options(_RUN_OPTIONS)
def submit(
    choices: Choices,
    runs: Annotated[Path, typer.Option(help="The server's folder of runs.")] = Path("runs"),
    kits: Annotated[Path, typer.Option(help="Folder with the server's kit.")] = Path("kits"),
    deadline: Deadline = 600.0,
    quorum: Quorum = 0,
    patience: Patience = 600.0,
    network: Network = None,
    again: Annotated[
        str | None, typer.Option("--resume", help="Continue this run that has stopped.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end and show the result.")] = True,
    as_json: AsJson = False,
) -> None:
    """Hand an experiment to the server of this machine; show how it goes, and its result."""
    from atoll.deploy.plan import Terms, read_plan
    from atoll.deploy.submission import follow, hand_in, hand_in_again
    from atoll.experiment.fields import build

    if again is not None:
        run_dir = hand_in_again(runs, again)
    else:
        values = {"deadline": deadline, "quorum": quorum, "patience": patience}
        chosen = experiment(choices | {"data": "sites/"})
        run_dir = hand_in(runs, kits, chosen, build(Terms, "terms", values), network)
    if not wait:
        print(run_dir)
        return
    with progress(read_plan(run_dir).experiment) as advance:
        result = follow(run_dir, advance)
    show_results([result], as_json)


def _gone(entry: dict[str, Any]) -> dict[str, str]:
    """Sites that do not take part, each with the reason."""
    suspended = {site: f"suspended, {why}" for site, why in entry.get("suspended", {}).items()}
    missing: dict[str, str] = entry.get("missing", {})
    return missing | suspended


def status(
    runs: Annotated[Path, typer.Option(help="The server's folder of runs.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """What the runs of this machine's server are doing, and which sites are missing."""
    import json
    import time

    from rich.table import Table

    from atoll.deploy.service import statuses
    from atoll.errors import AtollError
    from atoll.report.console import console

    if not runs.is_dir():
        raise AtollError(f"there is no folder '{runs}'; name the server's with --runs.")
    found = statuses(runs)
    if as_json:
        print(json.dumps(found))
        return
    columns = ("run", "state", "last report", "round", "sites", "missing or suspended")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for entry in found:
        table.add_row(
            entry["run"],
            entry["state"],
            f"{time.time() - entry['time']:.0f} s ago" if "time" in entry else "",
            f"{entry['round']}/{entry['rounds']}",
            str(len(entry.get("present", []))),
            "; ".join(f"{site}: {why}" for site, why in _gone(entry).items()),
        )
        if entry.get("message"):
            table.add_row("", entry["message"])
    console().print(table)
