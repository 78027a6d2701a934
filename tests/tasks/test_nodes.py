import numpy as np
import pytest

from atoll.errors import AtollError
from atoll.tasks.nodes import NodeClassification
from small_federations import community_parties


def test_label_noise_makes_a_share_of_training_labels_wrong_and_no_other():
    (graph,) = community_parties((60,), shared=0)
    noisy = NodeClassification(label_noise=0.15).prepare(graph, np.random.default_rng(0))
    wrong = noisy.y != graph.y
    assert wrong.sum() == round(0.15 * graph.train.sum())
    assert not wrong[~graph.train].any()
    assert (noisy.y[graph.train] >= 0).all()
    assert noisy.y.max() < graph.classes


def test_every_wrong_class_occurs():
    (graph,) = community_parties((300,), classes=3)
    noisy = NodeClassification(label_noise=1.0).prepare(graph, np.random.default_rng(0))
    train = graph.train
    assert (noisy.y != graph.y)[train].all()
    step = (noisy.y - graph.y)[train] % 3
    assert set(step) == {1, 2}


def test_without_noise_the_graph_is_untouched():
    (graph,) = community_parties((20,))
    assert NodeClassification().prepare(graph, np.random.default_rng(0)) is graph


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_outside_0_to_1_is_refused(share):
    with pytest.raises(AtollError, match=r"task\.label_noise"):
        NodeClassification(label_noise=share)
