"""The command about what a site lets be done with its data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atoll.errors import AtollError


def policy(
    file: Annotated[
        Path | None, typer.Argument(metavar="policy.toml", help="A policy to check.")
    ] = None,
    new: Annotated[
        Path | None, typer.Option(help="Write a policy with safe defaults and comments.")
    ] = None,
) -> None:
    """Write a site's policy, or check one: what runs may do there, and which methods it admits.

    Without a file, the built-in policy is shown: it holds where a site has none of its own.
    """
    from atoll.deploy.policy.default import TEXT, policy_at
    from atoll.files import PRIVATE, write_text

    if new is None:
        rules = policy_at(file)
        if file is None:
            print(TEXT, end="")
            return
        methods, exposing = (", ".join(n) for n in (rules.admitted.methods, rules.admitted.exposes))
        also = f"; opted in to: {exposing}" if exposing else ""
        print(f"{rules.name} admits {methods or 'no method'}{also}.")
        return
    if file is not None:
        raise AtollError("--new writes a policy and takes no other file; leave one of them out.")
    if new.exists():
        raise AtollError(f"'{new}' is there already; name another file, or remove it first.")
    write_text(new, TEXT, PRIVATE)
    print(f"wrote {new}; start the site with: atoll client --policy {new}")
