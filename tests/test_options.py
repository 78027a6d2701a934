from dataclasses import dataclass, field
from typing import Literal

import pytest

from atoll.errors import AtollError
from atoll.options import check_options, option, options_of


@dataclass(frozen=True)
class Shaky:
    name: str
    share: float = option(0.5, above=0, at_most=1)
    sizes: tuple[int, ...] = option((1, 2), at_least=1, why="a layer has a unit")
    kind: Literal["a", "b"] = "a"
    inner: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_options("model", self)


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0, float("nan")])
def test_a_value_out_of_bounds_is_one_sentence(share: float) -> None:
    with pytest.raises(AtollError, match=r"^model.share is .*; it must be above 0 and at most 1"):
        Shaky("x", share=share)


def test_every_entry_of_a_tuple_is_checked_and_the_reason_given() -> None:
    with pytest.raises(AtollError, match=r"model.sizes is 0; .* at least 1 \(a layer has a unit\)"):
        Shaky("x", sizes=(3, 0))


def test_a_class_that_changes_a_default_keeps_the_bounds() -> None:
    @dataclass(frozen=True)
    class Shakier(Shaky):
        share: float = 0.9

    with pytest.raises(AtollError, match="above 0 and at most 1"):
        Shakier("x", share=2.0)
    assert [o.values for o in options_of(Shakier)][1] == "float, above 0 and at most 1"


def test_values_at_the_bounds_are_fine() -> None:
    assert Shaky("x", share=1.0, sizes=(1,)).share == 1.0


def test_options_as_people_see_them() -> None:
    shown = {o.name: (o.values, o.default) for o in options_of(Shaky)}
    assert shown["share"] == ("float, above 0 and at most 1", "0.5")
    assert shown["kind"] == ("a | b", "a")
    assert shown["name"] == ("str", "(must be given)")
    assert shown["inner"][1] == "[]"


def test_a_value_that_is_no_choice_is_refused_in_python_too() -> None:
    with pytest.raises(AtollError, match=r"^unknown value of model.kind: 'c'.*a, b"):
        Shaky("x", kind="c")  # type: ignore[arg-type]
