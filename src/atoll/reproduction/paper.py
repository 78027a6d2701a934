"""The settings of a method's paper, read from the recipe that reproduces it.

A method names its recipes (``Method.paper``) and nothing else, so that what ``--settings paper``
gives and what ``atoll reproduce`` runs are the same lines of the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atoll.errors import AtollError
from atoll.experiment.config import Table
from atoll.methods.base import methods
from atoll.reproduction.recipe import Target, load_recipe

# What methods that are compared must have in common, and what each has of its own.
COMMON = ("data", "stress", "split", "partition", "run")
OWN = ("task", "model", "optimizer", "method")
# References, whose settings are those of what they are compared with.
_REFERENCES = ("local", "centralized")


def paper_settings(method: str, data: str | None) -> Table:
    """A method's settings in its paper: for the dataset, if the paper has it, else in general.

    Of several rows for a dataset the first counts. Without a dataset it is the paper's first.
    """
    targets = _targets(method)
    if not targets:
        known = ", ".join(name for name in methods if _targets(name))
        raise AtollError(
            f"no recipe has the settings of {method}'s paper; leave out --settings paper, or "
            f"choose one of: {known}."
        )
    fitting = [t for t in targets if data is None or t.settings["data"].get("name") == data]
    found = {section: dict(values) for section, values in (fitting or targets)[0].settings.items()}
    if not fitting:
        # Another dataset has other options, other numbers of clients and no owners of its own.
        found.pop("data", None)
        found.get("partition", {}).pop("clients", None)
        if found.get("partition", {}).get("name") == "natural":
            del found["partition"]
    return found


def papers_of(names: Sequence[str]) -> Callable[[str, str | None], Table]:
    """The same for methods that are compared: on data, split, cut and rounds that all share.

    These are those of the first method that has a paper and is no reference; a method without one
    has its model and optimizer as well.
    """
    with_paper = [name for name in names if _targets(name)]
    leading = [name for name in with_paper if name not in _REFERENCES] or with_paper or list(names)

    def settings(method: str, data: str | None) -> Table:
        lead = paper_settings(leading[0], data)
        own = lead
        if method != leading[0]:
            own = paper_settings(method, data) if _targets(method) else {}
            own = own or {section: lead[section] for section in OWN[1:3] if section in lead}
        return {
            section: found[section]
            for sections, found in ((COMMON, lead), (OWN, own))
            for section in sections
            if section in found
        }

    return settings


def _targets(method: str) -> list[Target]:
    """The cells of a method's recipes that run it under its own name."""
    return [
        target
        for recipe in methods[method].paper
        for target in load_recipe(recipe).targets
        if target.settings["method"]["name"] == methods.full_name(method)
    ]
