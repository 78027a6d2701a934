"""What a test of any room's options needs to know: values that declared bounds refuse."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from atoll.errors import AtollError
from atoll.options import bounds_text, declared_bounds

_STEP_OUTSIDE = {"at_least": -1, "above": 0, "at_most": 1, "below": 0}


def outside(cls: type[Any]) -> Iterator[tuple[str, Any, str]]:
    """For each declared bound of a component: the option, a value beyond it, the bounds as text."""
    for spec in fields(cls):
        declared = declared_bounds(cls, spec.name)
        for bound, limit in declared.get("bounds", {}).items():
            yield spec.name, limit + _STEP_OUTSIDE[bound], bounds_text(declared)


def refused_in_one_sentence(section: str, cls: type[Any], option: str, value: Any, text: str):
    """The value, alone or in a tuple where the option takes several, is refused by name."""
    default = next(spec.default for spec in fields(cls) if spec.name == option)
    given = (*default, value) if isinstance(default, tuple) else value
    with pytest.raises(AtollError) as problem:
        cls(**{option: given})
    said = str(problem.value)
    assert said.startswith(f"{section}.{option} is {value}; it must be {text}")
    assert said.endswith(".")
    assert "\n" not in said


def numbers_without_bounds(cls: type[Any]) -> set[str]:
    """The numeric options for which nothing is declared."""
    hints = get_type_hints(cls)
    numeric = (int, float, tuple[int, ...], tuple[float, ...])
    return {
        spec.name
        for spec in fields(cls)
        if hints[spec.name] in numeric and not declared_bounds(cls, spec.name)
    }
