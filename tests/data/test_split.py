from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atoll.data.split import Split
from atoll.errors import AtollError
from atoll.graph import Graph, make_graph


def lonely_nodes(labels: list[int], classes: int | None = None) -> Graph:
    """Labels without edges are all a split looks at."""
    y = np.array(labels)
    return make_graph(
        np.zeros((len(y), 1), dtype=np.float32), np.zeros((2, 0), int), y, classes=classes
    )


def split(graph: Graph, seed: int = 0, **options: Any) -> Graph:
    return Split(**options).apply(graph, np.random.default_rng(seed))


def sizes(graph: Graph) -> tuple[int, ...]:
    return tuple(int(part.sum()) for part in (graph.train, graph.val, graph.test))


def assert_disjoint(graph: Graph) -> None:
    assert (graph.train.astype(int) + graph.val + graph.test).max() == 1


def test_random_draws_fractions_of_the_labelled_nodes() -> None:
    graph = split(lonely_nodes([0, 1] * 10 + [-1] * 30))
    assert sizes(graph) == (4, 8, 8)
    assert_disjoint(graph)
    assert not (graph.train | graph.val | graph.test)[20:].any()


def test_random_draws_numbers_of_nodes_too() -> None:
    graph = split(lonely_nodes([0, 1] * 10), train=5, val=1, test=0.5)
    assert sizes(graph) == (5, 1, 10)
    assert_disjoint(graph)


def test_five_percent_for_training_and_half_of_the_rest_each() -> None:
    graph = split(lonely_nodes([0] * 200), train=0.05, val=0.475, test=0.475)
    assert sizes(graph) == (10, 95, 95)


def test_the_seed_decides() -> None:
    graph = lonely_nodes([0, 1] * 50)
    for options in ({}, {"kind": "per-class", "per_class": 5}):
        first, again, other = (split(graph, seed, **options) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.train, again.train)
        np.testing.assert_array_equal(first.test, again.test)
        assert (first.train != other.train).any()


def test_the_draw_is_pinned() -> None:
    """Results that were published with a seed stay reproducible."""
    graph = split(lonely_nodes([0] * 10), seed=7)
    assert np.flatnonzero(graph.train).tolist() == [0, 8]
    assert np.flatnonzero(graph.val).tolist() == [1, 3, 6, 7]


def test_per_class_takes_as_many_of_each() -> None:
    graph = split(
        lonely_nodes([0] * 4 + [1] * 20 + [2] * 30 + [-1] * 9),
        kind="per-class",
        per_class=4,
        val=0.25,
        test=20,
    )
    assert np.bincount(graph.y[graph.train]).tolist() == [4, 4, 4]
    assert sizes(graph) == (12, round(0.25 * (54 - 12)), 20)
    assert_disjoint(graph)
    assert not (graph.val | graph.test)[54:].any()


def test_the_shape_of_planetoids_split() -> None:
    graph = split(lonely_nodes([0, 1, 2] * 700), kind="per-class", per_class=20, val=500, test=1000)
    assert sizes(graph) == (60, 500, 1000)


def test_a_class_nobody_has_is_skipped() -> None:
    graph = split(lonely_nodes([0] * 9 + [2] * 9, classes=3), kind="per-class", per_class=2)
    assert graph.y[graph.train].tolist().count(1) == 0
    assert sizes(graph)[0] == 4


def test_public_takes_the_published_masks() -> None:
    graph = lonely_nodes([0, 1, 0, 1])
    known = replace(
        graph, train=np.arange(4) == 0, val=np.arange(4) == 1, test=np.array([0, 0, 1, 1]) > 0
    )
    assert split(known, kind="public") is known
    with pytest.raises(AtollError, match="graph has no published train nodes; choose the split"):
        split(graph, kind="public")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "publik"}, "unknown value of split.kind: 'publik': did you mean 'public'?"),
        ({"train": 0.0}, "split.train is 0.0; it must be above 0 (a fraction below 1, or a whole"),
        ({"val": -3}, "split.val is -3; it must be"),
        ({"test": 2.5}, "split.test is 2.5; it must be a fraction below 1, or a whole number"),
        ({"test": float("nan")}, "split.test is nan; it must be"),
        ({"test": float("inf")}, "split.test is inf; it must be"),
        ({"train": 0.5, "val": 0.5}, "split.train, val and test sum to 1.4; they may"),
        ({"kind": "per-class", "per_class": 0}, "split.per_class is 0; it must be at least 1."),
        ({"rehearsal": -1}, "split.rehearsal is -1; it must be at least 0."),
        ({"kind": "public", "rehearsal": 9}, "split.rehearsal draws nodes, and the split 'public'"),
        ({"kind": "per-class", "val": 0.7}, "split.val and test sum to 1.1; they may"),
    ],
)
def test_options_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AtollError) as problem:
        Split(**options)
    assert str(problem.value).startswith(sentence)


@pytest.mark.parametrize("kind", ["random", "per-class"])
def test_a_rehearsal_trains_on_the_same_nodes_and_tests_on_others(kind: str) -> None:
    graph = lonely_nodes([0, 1] * 50)
    options = {"kind": kind, "train": 10, "val": 10, "test": 30, "per_class": 5}
    real, rehearsed = split(graph, **options), split(graph, **options, rehearsal=20)
    assert (rehearsed.train == real.train).all()
    assert (rehearsed.val == real.val).all()
    assert sizes(rehearsed) == (10, 10, 20)
    assert_disjoint(rehearsed)
    assert not (rehearsed.test & real.test).any()
    with pytest.raises(AtollError, match=r"split\.rehearsal asks for 51 nodes, but graph has 50"):
        split(graph, **options, rehearsal=51)


def test_options_of_other_kinds_do_not_matter() -> None:
    assert Split(kind="public", train=5.5).kind == "public"
    assert Split(kind="public", train=0.9, val=0.9).kind == "public"
    assert Split(kind="per-class", train=5.5).per_class == 20


def test_more_nodes_than_there_are() -> None:
    few = lonely_nodes([0] * 5 + [1] * 30)
    with pytest.raises(
        AtollError, match=r"class 0 of graph has 5 nodes, fewer than split.per_class"
    ):
        split(few, kind="per-class", per_class=6)
    with pytest.raises(
        AtollError, match=r"split.val and test ask for 32 nodes, but graph has 31 labelled ones"
    ):
        split(few, kind="per-class", per_class=2, val=31, test=1)
    with pytest.raises(AtollError, match=r"split.train, val and test ask for 40 nodes"):
        split(few, train=20, val=10, test=10)


def test_per_class_validation_too() -> None:
    graph = split(
        lonely_nodes([0] * 8 + [1] * 20 + [-1] * 5),
        kind="per-class",
        per_class=3,
        per_class_val=4,
        test=10,
    )
    assert np.bincount(graph.y[graph.train]).tolist() == [3, 3]
    assert np.bincount(graph.y[graph.val]).tolist() == [4, 4]
    assert sizes(graph) == (6, 8, 10)
    assert_disjoint(graph)


def test_validating_by_class_trains_on_the_same_nodes() -> None:
    graph = lonely_nodes([0] * 8 + [1] * 20)
    options = {"kind": "per-class", "per_class": 3, "test": 5}
    without, with_val = split(graph, **options, val=5), split(graph, **options, per_class_val=2)
    np.testing.assert_array_equal(without.train, with_val.train)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_class_val": -1}, "split.per_class_val is -1"),
        ({"per_class": 5, "per_class_val": 4}, "per_class and per_class_val 9"),
        ({"per_class": 4, "per_class_val": 4, "test": 30}, "split.test ask for 30 nodes"),
    ],
)
def test_bad_validation_by_class(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AtollError, match=message):
        split(lonely_nodes([0] * 8 + [1] * 20), kind="per-class", **options)
