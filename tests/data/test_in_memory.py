"""Graphs made in Python as datasets, and what a run keeps of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import atoll
from atoll.data import from_graph
from atoll.data.in_memory import InMemory, digest
from atoll.errors import AtollError
from atoll.graph import Graph, Holding, View, make_graph


def ring(n: int = 24) -> Graph:
    """A ring of two halves; the feature tells which half a node is in."""
    y = (np.arange(n) >= n // 2).astype(int)
    edges = np.stack([np.arange(n), np.roll(np.arange(n), -1)])
    return make_graph(np.stack([y, 1 - y], axis=1).astype(np.float32), edges, y, name="ring")


def test_a_graph_runs(tmp_path):
    result = atoll.run(
        data=from_graph(ring()), partition="random", clients=2, rounds=3, out=tmp_path / "run"
    )
    assert sum(client["nodes"] for client in result.per_client) == 24
    assert result.summary()["data"] == "memory"


def test_the_config_keeps_a_digest_and_not_the_graph(tmp_path):
    data = from_graph(ring())
    atoll.run(data=data, partition="random", clients=2, rounds=1, out=tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    assert f'[data]\nname = "memory"\ndigest = "{data.digest}"\n' in config
    assert len(config) < 2000


def test_a_run_resumes_while_the_same_graph_is_held(tmp_path):
    out = tmp_path / "run"
    data = from_graph(ring())
    done = atoll.run(data=data, partition="random", clients=2, rounds=3, out=out)
    (out / "summary.json").unlink()
    del data, done.__dict__["experiment"]
    with pytest.raises(AtollError) as problem:
        atoll.resume(out)
    assert str(problem.value) == (
        "the dataset 'memory' is a graph made in Python and kept nowhere else; make the same graph "
        "again with atoll.data.from_graph, from_pyg or from_networkx and call atoll.run or "
        "atoll.resume while you hold it."
    )
    again = from_graph(ring())
    assert atoll.resume(out).test_accuracy == done.test_accuracy
    assert again.load().name == "ring"


def test_another_graph_is_no_substitute():
    one = from_graph(ring(24))
    other = from_graph(ring(26))
    assert InMemory(digest=one.digest).load().nodes == 24
    assert InMemory(digest=other.digest).load().nodes == 26


@pytest.mark.parametrize(
    "change",
    [
        {"x": np.zeros((24, 2), dtype=np.float32)},
        {"x": sparse.csr_array(ring().x)},
        {"y": np.zeros(24, dtype=int)},
        {"classes": 3},
        {"edges": ring().edges[:, ::-1]},
        {"train": np.arange(24) == 3},
        {"ids": np.arange(1, 25)},
        {"class_names": ("a", "b")},
        {"feature_names": ("a", "b")},
        {"holdings": (Holding("a", np.arange(3)),)},
        {"holdings": (Holding("a", np.arange(3), view=View(x=np.ones((3, 2)))),)},
    ],
)
def test_the_digest_tells_graphs_apart(change):
    assert digest(ring()) == digest(ring())
    assert digest(replace(ring(), **change)) != digest(ring())


def test_ids_that_are_objects_have_a_stable_digest():
    ids = np.array([f"node {i}" for i in range(24)], dtype=object)
    again = np.array([f"node {i}" for i in range(24)], dtype=object)
    assert digest(replace(ring(), ids=ids)) == digest(replace(ring(), ids=again))
