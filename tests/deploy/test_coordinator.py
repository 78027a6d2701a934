"""A deployment without an engine: the same numbers as a simulation, whatever fails."""

import pytest
import torch
from thread_fleet import deployed, experiment

from atoll.experiment.runner import run_experiment
from atoll.methods.base import methods
from atoll.tree import Ragged, subtree
from small_federations import community_parties

DEPLOYABLE = [n for n in methods if not methods[n].pooled and not methods[n].needs_network]


def parties():
    return community_parties((19, 25, 14))


def assert_same_result(one, other, tolerance=1e-9):
    a, b = subtree(one.parameters, "server"), subtree(other.parameters, "server")
    assert set(a) == set(b)
    for name, leaf in a.items():
        left, right = (x.values if isinstance(x, Ragged) else x for x in (leaf, b[name]))
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, msg=name)
    assert one.history.shape == other.history.shape
    for column in one.history.columns:
        left, right = (r.history[column].fill_null(-1).to_torch().double() for r in (one, other))
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, msg=column)


@pytest.mark.parametrize("name", DEPLOYABLE)
def test_every_method_gives_the_numbers_of_a_simulation(name, tmp_path):
    graphs = parties()
    result = deployed(tmp_path, graphs, name).run()
    simulated = run_experiment(experiment(tmp_path / "sites", name), tmp_path / "simulated")
    assert_same_result(simulated, result)
    assert (result.bytes_up, result.bytes_down) == (simulated.bytes_up, simulated.bytes_down)
