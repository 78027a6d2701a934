"""Ranges and lists, as they are written."""

import pytest

from atoll.errors import AtollError
from atoll.tuning.space import Axis, axes_of, grid_of, parsed, spelled

NOW = {"optimizer": {"lr": 0.01}, "model": {"hidden": 64}, "method": {"mu": 1.0}}


def one(text):
    [axis] = axes_of(parsed([text]), NOW)
    return axis


def test_ranges_and_lists():
    assert one("optimizer.lr=0.001..0.1:log") == Axis("optimizer.lr", (), 0.001, 0.1, True)
    assert one("optimizer.lr=1e-3..1").high == 1.0
    assert not one("method.mu=1..4").whole  # a float is searched as one
    assert one("model.hidden=8..64").whole
    assert one("method.mu=[0.1, 1]") == Axis("method.mu", (0.1, 1))
    assert one("model.name=['gcn', 'sage']").choices == ("gcn", "sage")


@pytest.mark.parametrize("text", ["optimizer.lr=0.001..1:log", "model.hidden=8..64", "a.b=[1, 2]"])
def test_what_is_kept_is_what_was_given(text):
    axis = one(text)
    assert axes_of({axis.path: spelled(axis.plain())}, NOW) == (axis,)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "nothing to tune; name a setting"),
        (["optimizer.lr"], "'optimizer.lr' is no setting; write it as section.key=value"),
        (["optimizer.lr=0.1"], "optimizer.lr can't be tuned over 0.1; write a range as"),
        (["optimizer.lr=a..b"], "can't be tuned over 'a..b'"),
        (["optimizer.lr=0.1.."], "can't be tuned over '0.1..'"),
        (["optimizer.lr=0.1..1:lin"], "can't be tuned over"),
        (["optimizer.lr=1..0.1"], "the first must be the smaller one"),
        (["optimizer.lr=0..0.1:log"], "logarithms need it above 0"),
        (["optimizer.lr=0.1..inf"], "the first must be the smaller one"),
        (["method.mu=[]"], r"can't be tuned over \[\]"),
        (["method.mu=[1, 1]"], r"has a value twice in \[1, 1\]"),
        (["method.mu=[[1], [2]]"], r"can't be tuned over \[1\]; give plain values"),
        (["method.mu=[1]", "method.mu=[2]"], "--over method.mu is given twice"),
    ],
)
def test_mistakes_name_the_setting(texts, says):
    with pytest.raises(AtollError, match=says):
        axes_of(parsed(texts), NOW)


def test_a_grid_has_all_points_and_ranges_have_none():
    axes = (Axis("a.b", (1, 2)), Axis("c.d", ("x", "y")))
    assert grid_of(axes) == [
        {"a.b": 1, "c.d": "x"}, {"a.b": 1, "c.d": "y"},
        {"a.b": 2, "c.d": "x"}, {"a.b": 2, "c.d": "y"},
    ]  # fmt: skip
    assert grid_of((*axes, Axis("e.f", (), 0.0, 1.0))) is None
