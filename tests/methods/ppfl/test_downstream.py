import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from atoll.methods.ppfl.downstream import cross_validated, discriminant, fold_score


def clouds(n: int, gap: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of points in the plane, ``gap`` apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.standard_normal((n, 2)) + gap * y[:, None], y


@pytest.mark.parametrize("classifier", ["mlp", "svc"])
def test_separate_clouds_are_told_apart_and_one_cloud_is_not(classifier):
    assert cross_validated(classifier, *clouds(60, gap=8.0), folds=5, seed=0) == 1.0
    assert cross_validated(classifier, *clouds(60, gap=0.0), folds=5, seed=0) < 0.7


def test_it_is_scikit_learns_micro_f1():
    h, y = clouds(60, gap=1.5)
    folds = StratifiedKFold(5, shuffle=True, random_state=7)
    theirs = cross_val_score(SVC(), h, y, cv=folds, scoring="f1_micro").mean()
    assert 0.6 < theirs < 1
    assert cross_validated("svc", h, y, folds=5, seed=7) == pytest.approx(theirs)


def test_a_class_smaller_than_the_folds_and_a_fold_of_one_class_are_no_crash():
    h, _ = clouds(10, gap=8.0)
    assert cross_validated("svc", h, np.where(np.arange(10) == 3, 1, 0), 5, 0) == 0.9


def test_a_fold_is_fitted_to_some_nodes_and_scored_on_others():
    """Here labels of the held-out nodes are turned round, so a score of 0 is what is right."""
    h, y = clouds(40, gap=8.0)
    train = np.arange(40) < 30
    turned = np.where(train, y, 1 - y)
    assert fold_score("svc", h, y, train, ~train, 0) == 1.0
    assert fold_score("svc", h, turned, train, ~train, 0) == 0.0
    assert fold_score("svc", h, y, train & (y == 1), ~train, 0) == 0.5
    assert np.isnan(fold_score("svc", h, y, np.zeros(40, dtype=bool), ~train, 0))


def test_nothing_can_be_learnt_from_labels_that_occur_once():
    assert np.isnan(cross_validated("svc", np.zeros((3, 2)), np.arange(3), 5, 0))
    assert np.isnan(cross_validated("svc", np.zeros((0, 2)), np.zeros(0, dtype=int), 5, 0))


def test_the_discriminant_by_hand():
    """One dimension, two nodes of each class at -1 and 1, no spread within: the middle is 0."""
    h = torch.tensor([[-1.0], [-1.0], [1.0], [1.0], [-0.2], [0.3]])
    y = torch.tensor([0, 0, 1, 1, 0, 1])
    train = torch.tensor([True] * 4 + [False] * 2)
    scores = discriminant(h, y, train, classes=2)
    assert scores.argmax(1).tolist() == [0, 0, 1, 1, 0, 1]
    torch.testing.assert_close(scores[4, 0] - scores[4, 1], (scores[5, 1] - scores[5, 0]) * 2 / 3)


def test_an_absent_class_and_no_training_node_at_all_give_finite_scores():
    h = torch.tensor([[-1.0, 0.0], [1.0, 0.5], [0.0, 0.0]])
    y = torch.tensor([0, 1, 2])
    some = discriminant(h, y, torch.tensor([True, True, False]), classes=3)
    none = discriminant(h, y, torch.zeros(3, dtype=torch.bool), classes=3)
    assert some.isfinite().all()
    assert none.isfinite().all()
    assert some[:2].argmax(1).tolist() == [0, 1]
