"""Threads of a run: torch's own operations have one on small graphs, whatever is asked for."""

import threading

import numpy as np
import pytest
import torch

from atoll.experiment.threads import suitable_threads, threads
from atoll.graph import make_graph
from atoll.kernels import sharing


def edgeless(nodes: int):
    none = np.zeros((2, 0), dtype=np.int64)
    return make_graph(np.ones((nodes, 1)), none, np.zeros(nodes, dtype=np.int64), classes=2)


@pytest.mark.parametrize(("nodes", "within"), [(24_000, 1), (26_000, 3)])
def test_torch_has_one_thread_on_small_graphs_and_kernels_what_was_asked_for(
    nodes, within, monkeypatch
):
    graphs, before = [edgeless(nodes)] * 2, torch.get_num_threads()
    monkeypatch.setattr(sharing, "ENOUGH", 0)
    seen = set()
    with threads(3, graphs):
        assert torch.get_num_threads() == within
        gate = threading.Barrier(3)  # passed only if three threads are at work at once
        sharing.share(lambda *_: seen.add((gate.wait(60), torch.get_num_threads())), 3, 1.0)
    assert seen == {(0, 1), (1, 1), (2, 1)}
    assert torch.get_num_threads() == before


def test_where_nobody_says_how_many_small_graphs_take_one():
    assert suitable_threads([edgeless(49_999)]) == 1
    assert suitable_threads([edgeless(50_000)]) == torch.get_num_threads()
