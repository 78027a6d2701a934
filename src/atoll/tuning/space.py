"""What is searched: settings with a range or a list of values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.errors import AtollError
from atoll.experiment.config import Table, section_and_key, setting

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Params = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """One setting: its ``choices``, or all numbers from ``low`` to ``high``."""

    path: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole ones."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that are tried before the search, so that it begins with no mistake."""
        return self.choices or (self.low, self.high)

    def holds(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    def distribution(self) -> BaseDistribution:
        from optuna import distributions

        if self.choices:
            return distributions.CategoricalDistribution(self.choices)
        if self.whole:
            return distributions.IntDistribution(int(self.low), int(self.high), log=self.log)
        return distributions.FloatDistribution(self.low, self.high, log=self.log)

    def plain(self) -> dict[str, Any]:
        if self.choices:
            return {"choices": list(self.choices)}
        return {"low": self.low, "high": self.high, "log": self.log}


def axes_of(over: Mapping[str, Any], now: Table) -> tuple[Axis, ...]:
    """Axes by path. A value is a list, or ``"0.001..0.1"``, with ``:log`` for a logarithmic one.

    ``now`` has the settings as they are: a setting that is a float is searched as one.
    """
    if not over:
        raise AtollError(
            "there is nothing to tune; name a setting, e.g. --over optimizer.lr=0.001..0.1:log."
        )
    return tuple(_axis(path.strip(), given, now) for path, given in over.items())


def spelled(plain: Mapping[str, Any]) -> Any:
    """A kept axis as it is given."""
    if "choices" in plain:
        return plain["choices"]
    return f"{plain['low']}..{plain['high']}{':log' if plain['log'] else ''}"


def parsed(texts: Sequence[str]) -> dict[str, Any]:
    """``optimizer.lr=0.001..0.1:log`` and ``method.mu=[0.1, 1]`` by path."""
    found: dict[str, Any] = {}
    for text in texts:
        path, value = setting(text)
        if path in found:
            raise AtollError(f"--over {path} is given twice; give each setting once.")
        found[path] = value
    return found


def _axis(path: str, given: Any, now: Table) -> Axis:
    section, key = section_and_key(path)
    if isinstance(given, str):
        return _range(path, given, isinstance(now.get(section, {}).get(key), float))
    if not isinstance(given, list | tuple) or not given:
        raise _no_axis(path, given)
    for value in given:
        if not isinstance(value, str | bool | int | float):
            raise AtollError(f"{path} can't be tuned over {value!r}; give plain values.")
    if len(set(given)) < len(given):
        raise AtollError(f"{path} has a value twice in {list(given)}; give each once.")
    return Axis(path, tuple(given))


def _range(path: str, text: str, as_float: bool) -> Axis:
    span, _, how = text.partition(":")
    low, dots, high = span.partition("..")
    if not dots or how.strip() not in ("", "log"):
        raise _no_axis(path, text)
    try:
        ends = [_number(low, as_float), _number(high, as_float)]
    except ValueError:
        raise _no_axis(path, text) from None
    if not all(map(math.isfinite, ends)) or not ends[0] < ends[1]:
        raise AtollError(f"{path} is to be tuned over {text}; the first must be the smaller one.")
    if how and ends[0] <= 0:
        raise AtollError(f"{path} is to be tuned over {text}; logarithms need it above 0.")
    return Axis(path, (), ends[0], ends[1], bool(how))


def _number(text: str, as_float: bool) -> float:
    try:
        return float(int(text)) if as_float else int(text)
    except ValueError:
        return float(text)


def _no_axis(path: str, given: Any) -> AtollError:
    return AtollError(
        f"{path} can't be tuned over {given!r}; write a range as 0.001..0.1 or 0.001..0.1:log, or "
        f"a list as [0.1, 1]."
    )


def grid_of(axes: Sequence[Axis]) -> list[Params] | None:
    """All points, where there are finitely many by lists; None with a range among them."""
    if not all(axis.choices for axis in axes):
        return None
    points = itertools.product(*(axis.choices for axis in axes))
    return [dict(zip((axis.path for axis in axes), point, strict=True)) for point in points]
