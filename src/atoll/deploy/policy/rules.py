"""A site's policy: a TOML file that lies at the site and is sent to nobody.

What it does not name is refused. Sections and keys are those of :class:`Policy`; a file may leave
some out, which then have the values of the built-in policy (:mod:`atoll.deploy.policy.default`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from atoll.errors import AtollError, unknown
from atoll.experiment.config import REGISTRIES
from atoll.experiment.fields import build
from atoll.files import refuse_written_by_all
from atoll.options import check_options, option
from atoll.plugins import absolute

ALL = "*"  # stands for every name; no built-in policy has it
Ranges = Mapping[str, Mapping[str, tuple[float, float]]]


@dataclass(frozen=True, kw_only=True)
class Who:
    """``coordinators``: the SHA-256 of the keys of those who may submit runs; empty: whoever the
    kit's authority admits."""

    coordinators: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Code:
    """``admit``: plug-ins that runs may use here, as ``atoll client --admit`` takes them."""

    admit: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Components:
    """The names of methods, tasks, models and optimizers that a run may have.

    ``exposes`` names methods that are admitted although they were measured to give away links or
    features (:mod:`atoll.methods.exposure`); they must be in ``methods`` as well.
    """

    methods: tuple[str, ...] = ()
    exposes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What may leave: kinds, the width of rows that stand for nodes, and bytes.

    ``rows_narrower_than_features`` refuses rows as wide as the features: they could be the features
    themselves. ``bytes_in_all`` counts every run that this site ever took part in. ``repeats`` is
    how many steps of a round may be performed again, with other content, after a new attempt.
    """

    kinds: tuple[str, ...] = ()
    row_width: int = option(0, at_least=0)
    rows_narrower_than_features: bool = True
    bytes_per_round: int = option(0, at_least=0)
    bytes_in_all: int = option(0, at_least=0)
    repeats: int = option(0, at_least=0)

    def __post_init__(self) -> None:
        check_options("leaving", self)


@dataclass(frozen=True, kw_only=True)
class Data:
    """How much a site must have before it takes part, and how much of it may be anchors."""

    nodes: int = option(0, at_least=0)
    labelled: int = option(0, at_least=0)
    anchor_share: float = option(0.0, at_least=0, at_most=1)

    def __post_init__(self) -> None:
        check_options("data", self)


@dataclass(frozen=True, kw_only=True)
class Required:
    """Protections without which the site does not take part.

    ``epsilon`` is the most that a run may spend at ``delta``; 0 requires no noise. ``unit`` is what
    the noise must hide: the site's whole part in a run, or at least one node's.
    ``epsilon_in_all`` is the most that all runs of this site may spend together; 0 is no limit.
    """

    secure_sum: bool = False
    epsilon: float = option(0.0, at_least=0)
    epsilon_in_all: float = option(0.0, at_least=0)
    unit: Literal["client", "node"] = "client"
    delta: float = option(1e-5, above=0, below=1)

    def __post_init__(self) -> None:
        check_options("required", self)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """All of it, by section. ``ranges`` has ``[low, high]`` by section and option of a run."""

    who: Who = field(default_factory=Who)
    code: Code = field(default_factory=Code)
    admitted: Components = field(default_factory=Components)
    ranges: Ranges = field(default_factory=dict)
    leaving: Leaving = field(default_factory=Leaving)
    data: Data = field(default_factory=Data)
    required: Required = field(default_factory=Required)
    # What refusals call it.
    name: str = "the built-in policy"


_SECTIONS: dict[str, type[Any]] = {
    "who": Who,
    "code": Code,
    "admitted": Components,
    "leaving": Leaving,
    "data": Data,
    "required": Required,
}
_NAMES = {"method": "methods", "task": "tasks", "model": "models", "optimizer": "optimizers"}
_RANGED = ("run", "method", "model", "optimizer", "task")


def policy_of(text: str, name: str, usual: Policy | None = None) -> Policy:
    """The policy that a text holds; what it leaves out is as in ``usual``."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise AtollError(f"{name} can't be read as TOML ({problem}).") from problem
    parts: dict[str, Any] = {"name": name}
    for section, values in table.items():
        known = (*_SECTIONS, "ranges")
        if section not in known:
            raise unknown(f"section of {name}:", section, known)
        if not isinstance(values, dict):
            raise AtollError(f"'{section}' in {name} is no section; write it as [{section}].")
        parts[section] = (
            _ranges(values, name)
            if section == "ranges"
            else build(_SECTIONS[section], section, _usual(usual, section) | values)
        )
    if usual is not None:
        if "ranges" in parts:
            old = usual.ranges
            parts["ranges"] = dict(old) | {
                s: {**old.get(s, {}), **r} for s, r in parts["ranges"].items()
            }
        parts = {f.name: getattr(usual, f.name) for f in fields(Policy)} | parts
    policy = Policy(**parts)
    _refuse_unknown(policy)
    return policy


def _refuse_unknown(policy: Policy) -> None:
    """A name that is misspelt would refuse what was meant, or admit nothing."""
    for section, key in _NAMES.items():
        registry = REGISTRIES[section][0]
        for name in getattr(policy.admitted, key):
            if name != ALL and registry.full_name(name) not in tuple(registry):
                raise unknown(f"{section} in {policy.name}:", name, registry)
    for name in policy.admitted.exposes:
        if not {ALL, name} & set(policy.admitted.methods):
            raise AtollError(
                f"{policy.name} has '{name}' in exposes but not in methods; name it in both."
            )


def read_policy(path: Path, usual: Policy) -> Policy:
    """A site's own file."""
    try:
        refuse_written_by_all(path)
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise AtollError(
            f"the policy '{path}' can't be read ({problem}); write one with: atoll policy --new "
            f"{path}"
        ) from problem
    policy = policy_of(text, f"'{path}'", usual)
    # Files are named from where the policy lies, whoever reads it where.
    admit = tuple(absolute(name, path.parent.resolve()) for name in policy.code.admit)
    return replace(policy, code=Code(admit=admit))


def _usual(usual: Policy | None, section: str) -> dict[str, Any]:
    if usual is None:
        return {}
    part = getattr(usual, section)
    return {f.name: getattr(part, f.name) for f in fields(part)}


def _ranges(values: Mapping[str, Any], name: str) -> dict[str, dict[str, tuple[float, float]]]:
    ranges: dict[str, dict[str, tuple[float, float]]] = {}
    for section, options in values.items():
        if section not in _RANGED or not isinstance(options, dict):
            raise unknown(
                f"section of {name}:", f"ranges.{section}", [f"ranges.{s}" for s in _RANGED]
            )
        for key, bounds in options.items():
            pair = list(bounds) if isinstance(bounds, list) else []
            numbers = all(isinstance(b, int | float) and not isinstance(b, bool) for b in pair)
            if len(pair) != 2 or not numbers or not pair[0] <= pair[1]:
                raise AtollError(
                    f"ranges.{section}.{key} in {name} is {bounds!r}; write it as [low, high]."
                )
            ranges.setdefault(section, {})[key] = (float(pair[0]), float(pair[1]))
    return ranges
