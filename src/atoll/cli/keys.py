"""The command that makes keys: at a site, at the authority, or all in one place for a rehearsal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.deploy import Engine
from atoll.cli.options import out_folder

_HERE = (
    "these sites' secret keys were made here, which is for rehearsals; where a site is somebody "
    "else's, have it make its own with: atoll keys --request NAME"
)


def keys(
    sites: Annotated[
        str, typer.Option(help="Make these sites' keys here too; names separated by commas.")
    ] = "",
    server: Annotated[str, typer.Option(help="HOST:PORT that the sites will dial.")] = "",
    out: Annotated[
        Path, typer.Option(help="Gets a folder for each side.", callback=out_folder)
    ] = Path("kits"),
    engine: Engine = "nvflare",
    request: Annotated[
        str,
        typer.Option(
            metavar="SITE",
            help="At a site, or at the server ("
            "'coordinator', with --server): make its keys, and a request to be signed.",
        ),
    ] = "",
    sign: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="At the authority: enrol whoever made this request."),
    ] = None,
    install: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="At who made the request: complete its kit with the answer."
        ),
    ] = None,
    revoke: Annotated[
        str, typer.Option(metavar="SITE", help="From now on nothing that this site says counts.")
    ] = "",
    renew: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A new kit for this site (with --sign: of its own making), or a new key for the "
            "'coordinator'; the old is revoked.",
        ),
    ] = "",
) -> None:
    """Make what each side needs: certificates and keys, one folder per side.

    Each site, and the server under the name 'coordinator', makes its own keys with --request, the
    authority signs them with --sign, and who asked installs the answer with --install; the two
    compare the fingerprints that are printed. With
    --server alone, or with the first --sign, an authority is made. --sites makes all kits in one
    place, for rehearsals. Give the server 'server' and 'operator', and keep 'authority' offline.
    """
    from atoll.deploy.engines import engine_named
    from atoll.errors import AtollError

    wanted = [bool(w) for w in (sites, revoke, request, sign, install, renew and not sign)]
    if sum(wanted) > 1 or not (any(wanted) or server):
        raise AtollError(
            "give one of --sites, --request, --sign, --install, --revoke and --renew; or --server "
            "alone, to make an authority."
        )
    if request:
        _request(out, engine, request, server)
    elif install is not None:
        _install(out, install)
    elif sign is not None:
        _sign(out, sign, server, renew)
    elif revoke or renew:
        _change(out, revoke, renew)
    else:
        from atoll.deploy.kits import make_kits

        names = [name.strip() for name in sites.split(",") if name.strip()]
        make_kits(out, engine_named(engine), server, names)
        if names:
            print(f"made kits for {len(names)} sites in {out}; move each to its site, keep no copy")
            print(_HERE)
        else:
            print(f"made an authority, a server and an operator in {out}")
    if not (request or install):
        roster = out / "authority" / "roster.signed"
        print(f"the server needs the newest roster in its kit: {roster}")


def _request(out: Path, engine: str, site: str, server: str) -> None:
    from atoll.deploy.engines import engine_named
    from atoll.deploy.enrolment import make_request
    from atoll.deploy.enrolment_server import make_server_request
    from atoll.deploy.keyring import COORDINATOR

    if site == COORDINATOR:
        file, printed = make_server_request(out, engine_named(engine), server)
        print(f"made the server's keys in {out / 'server'} and {out / 'operator'}; they stay there")
        print(f"send the authority {file}, and read it this fingerprint: {printed}")
        return
    file, printed = make_request(out, engine_named(engine), site)
    print(f"made the keys of {site} in {out / f'site-{site}'}; they stay there")
    print(f"send the authority {file}, and read it this fingerprint: {printed}")


def _sign(out: Path, file: Path, server: str, renew: str) -> None:
    from atoll.deploy.enrolment import sign_request
    from atoll.deploy.enrolment_server import is_of_a_server, sign_server_request

    whose, sign = (
        ("server", sign_server_request) if is_of_a_server(file) else ("site", sign_request)
    )
    made, printed, authority = sign(out, file, server, renew)
    print(f"the request's fingerprint; it must be what the {whose} reads to you: {printed}")
    print(f"send the {whose} {made}, and read it the authority's fingerprint: {authority}")


def _install(out: Path, file: Path) -> None:
    from atoll.deploy.enrolment import install_answer
    from atoll.deploy.enrolment_server import install_server_answer, is_of_a_server

    of_server = is_of_a_server(file)
    kit, authority = (install_server_answer if of_server else install_answer)(out, file)
    print(f"the authority's fingerprint; it must be what the authority reads to you: {authority}")
    if of_server:
        print(f"start the server with: atoll server --kits {out} --runs FOLDER")
        return
    print(f"start the site with: atoll client --kit {kit} --data FOLDER")


def _change(out: Path, revoke: str, renew: str) -> None:
    from atoll.deploy.kits import renew_keys, revoke_site

    if revoke:
        revoke_site(out, revoke)
        print(f"revoked {revoke}")
    else:
        renew_keys(out, renew)
        print(f"renewed {renew}")
