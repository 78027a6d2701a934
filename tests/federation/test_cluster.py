"""What is said of clusters before any is started, and graphs on their way to one."""

import numpy as np
import pytest
from scipy import sparse

from atoll.data.builtin import Patients
from atoll.errors import AtollError
from atoll.experiment.trial import small_graph
from atoll.federation.cluster import Engine, engine_of, refuse_other_versions, versions
from atoll.graph import Graph
from atoll.graph.plain import Common, GraphsOfPlain, plain_graphs


@pytest.mark.parametrize(
    ("text", "workers", "engine"),
    [
        (None, 0, Engine()),
        ("process", 0, Engine()),
        ("ray", 3, Engine("ray", "", 3)),
        ("ray:10.0.0.1:6379", 0, Engine("ray", "10.0.0.1:6379")),
    ],
)
def test_engines_by_name(text, workers, engine):
    assert engine_of(text, workers) == engine


@pytest.mark.parametrize(
    ("text", "workers", "why"),
    [
        ("spark", 0, "unknown engine 'spark'"),
        ("ray:10.0.0.1", 0, "ray:HOST:PORT"),
        ("ray:10.0.0.1:port", 0, "ray:HOST:PORT"),
        ("process:10.0.0.1:80", 0, "ray:HOST:PORT"),
        ("ray", -1, "--workers is -1"),
        ("process", 2, "--workers is for --engine ray"),
    ],
)
def test_engines_that_there_are_not(text, workers, why):
    with pytest.raises(AtollError, match=why):
        engine_of(text, workers)


def test_a_host_with_another_torch_is_refused():
    refuse_other_versions(versions())
    with pytest.raises(AtollError, match=r"a host of the Ray cluster has torch 1\.0"):
        refuse_other_versions(versions() | {"torch": "1.0"})


def same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and bool(
            np.array_equal(one, other)
        )  # fmt: skip
    if sparse.issparse(one):
        return same(one.toarray(), other.toarray())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        names = one.__dataclass_fields__
        return type(one) is type(other) and all(
            same(getattr(one, n), getattr(other, n)) for n in names
        )
    return one == other


@pytest.mark.parametrize("graph", [small_graph(), Patients().load()], ids=["holdings", "patients"])
def test_a_graph_of_plain_values_is_the_graph(graph):
    [plain] = plain_graphs([graph], Common([graph]))
    again = GraphsOfPlain().graph(plain)
    assert isinstance(again, Graph)
    assert same(graph, again)


def test_what_clients_hold_in_common_is_sent_once_and_held_in_common_again():
    graph = small_graph()
    other = graph.relabelled(y=graph.y, train=graph.val, val=graph.train, name="other")
    common = Common([graph, other])
    assert len(common.parts) == 2  # features and edges; there are no weights
    way_back = GraphsOfPlain(common.plain())
    one, two = (way_back.graph(plain) for plain in plain_graphs([graph, other], common))
    assert one.x is two.x
    assert one.edges is two.edges
    assert one.derived is two.derived
    assert same(two.train, graph.val)
    assert (one.name, two.name) == (graph.name, "other")
