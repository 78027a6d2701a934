"""The options that describe an experiment, shared by every command that needs one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.errors import AtollError

if TYPE_CHECKING:
    from atoll.experiment.config import Experiment

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="process: in this process; ray: a Ray cluster on this machine; ray:HOST:PORT: one "
        "that is running. Results are the same.",
    ),
]
Workers = Annotated[
    int, typer.Option(help="Processes that hold clients, with --engine ray: 0 means all there is.")
]

_OPTIONS: dict[str, Any] = {
    "recipe": Annotated[
        Path | None, typer.Argument(help="A TOML file with the settings; flags win over it.")
    ],
    "method": Annotated[str | None, typer.Option(help="See: atoll list methods.")],
    "data": Annotated[
        str | None,
        typer.Option(help="See: atoll list datasets; or a folder with one folder per client."),
    ],
    "partition": Annotated[
        str | None, typer.Option(help="How the graph is cut. See: atoll list partitions.")
    ],
    "owner": Annotated[
        str | None,
        typer.Option(
            help="The column of your table that names each node's owner; each owner is a client."
        ),
    ],
    "task": Annotated[
        str | None, typer.Option(help="nodes or graphs: classify them; links: predict them.")
    ],
    "model": Annotated[str | None, typer.Option(help="See: atoll list models.")],
    "optimizer": Annotated[str | None, typer.Option(help="See: atoll list optimizers.")],
    "clients": Annotated[int | None, typer.Option(help="Number of clients.")],
    "rounds": Annotated[int | None, typer.Option(help="Number of rounds.")],
    "seed": Annotated[int | None, typer.Option(help="Seeds split, partition and training.")],
    "chunk": Annotated[int | None, typer.Option(help="Clients trained at once: 0 means all.")],
    "metric": Annotated[
        str | None,
        typer.Option(
            help="What chooses the best round: accuracy, balanced-accuracy, macro-f1, f1, roc-auc, "
            "pr-auc, recall-at-precision or log-loss."
        ),
    ],
    "settings": Annotated[
        str | None,
        typer.Option(
            metavar="paper", help="paper: the settings of the method's paper; other flags win."
        ),
    ],
    "set": Annotated[
        list[str] | None,
        typer.Option(metavar="SECTION.KEY=VALUE", help="Any field, e.g. optimizer.lr=0.005."),
    ],
}
DATA_OPTIONS = ("recipe", "data", "partition", "owner", "clients", "seed", "set")
ALL_OPTIONS = tuple(_OPTIONS)


def out_folder(out: Path | None) -> Path | None:
    """A folder to write to, before any work is done for it: neither it nor one above is a file."""
    for folder in () if out is None else (out, *out.parents):
        if folder.exists() and not folder.is_dir():
            what = "" if folder == out else f", so there can be no '{out}'"
            raise AtollError(f"'{folder}' is a file{what}; name a folder.")
    return out


def with_options(names: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the named options and hand them to it as one dictionary, ``choices``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        shared = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTIONS[name]
            )
            for name in names
        ]
        rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in list(own.values())[1:]]

        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            choices = {name: given.pop(name) for name in names}
            command(choices, **given)

        del wrapper.__wrapped__
        wrapper.__signature__ = inspect.Signature([*shared, *rest])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in [*shared, *rest]}
        return wrapper

    return decorate


def experiment(choices: dict[str, Any]) -> Experiment:
    """The experiment that a command's options describe."""
    from atoll.experiment.choices import choose

    return choose(**described_choices(choices), **of_papers(choices))


def described_choices(choices: dict[str, Any]) -> dict[str, Any]:
    """A command's options as the arguments of :func:`choose`."""
    from atoll.experiment.config import setting

    named = {name: value for name, value in choices.items() if name not in ("set", "settings")}
    return named | {"settings": [setting(text) for text in choices.get("set") or []]}


def of_papers(choices: dict[str, Any], together: Sequence[str] = ()) -> dict[str, Any]:
    """The option --settings as an argument of :func:`choose`; ``together`` are compared methods."""
    if choices.get("settings") is None:
        return {}
    from atoll.options import not_a_choice
    from atoll.reproduction.paper import paper_settings, papers_of

    if choices["settings"] != "paper":
        raise not_a_choice("--settings", choices["settings"], ("paper",))
    return {"paper": papers_of(together) if together else paper_settings}
