from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.methods.base import methods
from atoll.tasks.node_loss import nll, nll_errors
from atoll.tasks.nodes import NodeClassification
from small_federations import community_parties, path_graph


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


def three_of_one_class():
    """Training nodes 0 0 0 1 in a row; balanced, they count 2/3 each and 2."""
    return Cohort([path_graph(np.eye(4), [0, 0, 0, 1])], dtype=torch.float64)


def test_balanced_classes_count_the_same():
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.0]], dtype=torch.float64)
    losses = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 0, 0, 1]), reduction="none")
    expected = (losses[:3].sum() * 2 / 3 + losses[3] * 2) / 4
    found = nll(logits, three_of_one_class(), "balanced")
    torch.testing.assert_close(found, expected[None])


def test_the_gradient_written_out_is_that_of_the_balanced_loss():
    cohort = three_of_one_class()
    logits = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits.requires_grad_()
    [expected] = torch.autograd.grad(nll(logits, cohort, "balanced").sum(), logits)
    torch.testing.assert_close(nll_errors(logits.detach(), cohort, "balanced"), expected)


def test_the_positive_class_is_the_rarer_one_or_the_one_that_is_named():
    graph = replace(path_graph(np.eye(4), [0, 1, 1, 1]), class_names=("bad", "good"))
    assert NodeClassification().settled([graph]).positive == 0
    assert NodeClassification(positive="good").settled([graph]).positive == 1
    assert NodeClassification(positive=1).settled([graph]).positive == 1
    with pytest.raises(AtollError, match=r"task\.positive is 'worse'.*bad, good"):
        NodeClassification(positive="worse").settled([graph])


def test_methods_with_a_loss_of_their_own_refuse_class_weights():
    with pytest.raises(AtollError, match=r"fed-mlp .*task\.class_weight=none"):
        methods["fed-mlp"](task=NodeClassification(class_weight="balanced"))
