import pytest
import torch

from atoll.errors import AtollError
from atoll.experiment.history import History
from atoll.federation.calls import Replies


def replies(val, test, nodes=((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))):
    accuracy = torch.tensor(
        [[0.0, v, t] for v, t in zip(val, test, strict=True)], dtype=torch.float64
    )
    body = {"metric/accuracy": accuracy, "metric/loss": torch.zeros(2, 3).double()}
    body["metric/nodes"] = torch.tensor(nodes).double()
    return Replies((0, 1), body, torch.ones(2), torch.arange(2))


def test_the_test_figure_is_that_of_the_first_best_validation_round():
    history = History()
    history.add(1, replies((0.2, 0.4), (0.9, 0.9)), 0.1, 0, 0)
    mean = history.add(2, replies((0.5, 0.5), (0.6, 0.8)), 0.1, 0, 0)
    history.add(3, replies((0.4, 0.6), (1.0, 1.0)), 0.1, 0, 0)
    best = history.best()
    assert mean == pytest.approx(0.5)
    assert best.round == 2
    assert best.mean("test_accuracy") == pytest.approx(0.7)
    assert best.std("test_accuracy") == pytest.approx(0.1)
    assert history.table().shape == (6, 8)


def test_a_client_without_test_nodes_does_not_count_as_zero():
    history = History()
    nodes = ((1.0, 1.0, 0.0), (1.0, 1.0, 5.0))
    history.add(1, replies((0.5, 0.5), (0.0, 0.8), nodes), 0.1, 0, 0)
    assert history.best().mean("test_accuracy") == pytest.approx(0.8)
    assert history.table()["test_accuracy"].to_list() == [None, pytest.approx(0.8)]


def test_no_validation_nodes_at_all_is_explained():
    history = History()
    nodes = ((1.0, 0.0, 1.0), (1.0, 0.0, 1.0))
    history.add(1, replies((0.0, 0.0), (0.5, 0.5), nodes), 0.1, 0, 0)
    with pytest.raises(AtollError, match=r"split\.val"):
        history.best()
