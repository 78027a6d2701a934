import numpy as np
import pytest
from sklearn import metrics as reference

from atoll.tasks.metrics import (
    EXTENDED,
    NO_SCORE,
    Cells,
    best_of,
    better,
    f1_of,
    never_predicted,
)


def binary(y, scores, precision=0.9, cell=None):
    """The figures of each cell by name; a node is taken for class 1 if it scores above 0."""
    y, scores = np.array(y), np.array(scores, dtype=float)
    cell = np.zeros(len(y), dtype=int) if cell is None else np.array(cell)
    cells = Cells(y, cell, int(cell.max()) + 1, 2, (1,))
    found = cells.extended((scores > 0).astype(int), scores[None], 1, precision)
    return [dict(zip(EXTENDED, row, strict=True)) for row in found.tolist()]


def test_four_nodes_by_hand():
    """Ranked 1 0 1 0: of the four pairs one is wrong; precision is 1 and then 2/3."""
    [found] = binary([1, 0, 1, 0], [3.0, 2.0, 1.0, -1.0])
    assert found["roc_auc"] == pytest.approx(3 / 4)
    assert found["pr_auc"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["recall_at_precision"] == pytest.approx(1 / 2)
    assert found["balanced_accuracy"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["f1"] == pytest.approx(2 * 2 / (3 + 2))
    assert found["macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_ties_count_half_and_share_a_precision():
    [found] = binary([1, 0, 1, 0], [1.0, 1.0, 1.0, 1.0])
    assert found["roc_auc"] == pytest.approx(0.5)
    assert found["pr_auc"] == pytest.approx(0.5)
    assert found["recall_at_precision"] == 0.0
    [found] = binary([1, 0, 1, 0], [2.0, 1.0, 1.0, -1.0])
    assert found["roc_auc"] == pytest.approx((2 + 1 + 0.5) / 4)
    assert found["pr_auc"] == pytest.approx((1 + 2 / 3) / 2)


def test_zero_and_minus_zero_are_a_tie():
    [found] = binary([1, 0], [-0.0, 0.0])
    assert found["roc_auc"] == 0.5


@pytest.mark.parametrize(
    ("precision", "recall"), [(0.5, 1.0), (0.75, 1.0), (0.8, 1 / 3), (1.0, 1 / 3)]
)
def test_recall_at_a_precision_is_the_largest_that_keeps_it(precision, recall):
    """Ranked 1 0 1 1 0: the precision at the positives is 1, 2/3 and 3/4."""
    [found] = binary([1, 0, 1, 1, 0], [5.0, 4.0, 3.0, 2.0, 1.0], precision)
    assert found["recall_at_precision"] == pytest.approx(recall)


def test_nodes_of_one_class_have_no_area():
    ones, zeros = binary([1, 1, 0, 0, 0], [1.0, -1.0, 1.0, -1.0, -2.0], cell=[0, 0, 1, 1, 1])
    for found in (ones, zeros):
        assert found["roc_auc"] == found["pr_auc"] == NO_SCORE
        assert found["recall_at_precision"] == NO_SCORE
    assert ones["f1"] == pytest.approx(2 / 3)
    assert zeros["f1"] == NO_SCORE
    assert zeros["balanced_accuracy"] == pytest.approx(2 / 3)


def test_an_empty_cell_has_no_score_at_all():
    empty, full = binary([1, 0], [1.0, -1.0], cell=[1, 1])
    assert set(empty.values()) == {NO_SCORE}
    assert set(full.values()) == {1.0}


def test_cells_of_two_classes_against_scikit_learn():
    rng = np.random.default_rng(0)
    n, count = 400, 7
    y, cell = rng.integers(0, 2, n), rng.integers(0, count, n)
    scores = np.round(rng.normal(size=n) + y, 1).astype(np.float32)  # many ties
    for k, found in enumerate(binary(y, scores, 0.7, cell)):
        own, s = y[cell == k], scores[cell == k]
        guess = (s > 0).astype(int)
        assert found["roc_auc"] == pytest.approx(reference.roc_auc_score(own, s))
        assert found["pr_auc"] == pytest.approx(reference.average_precision_score(own, s))
        precision, recall, _ = reference.precision_recall_curve(own, s)
        assert found["recall_at_precision"] == pytest.approx(recall[precision >= 0.7].max())
        assert found["f1"] == pytest.approx(reference.f1_score(own, guess))
        assert found["macro_f1"] == pytest.approx(reference.f1_score(own, guess, average="macro"))
        balanced = reference.balanced_accuracy_score(own, guess)
        assert found["balanced_accuracy"] == pytest.approx(balanced)


def test_several_classes_are_means_over_one_against_the_rest():
    rng = np.random.default_rng(1)
    y, cell = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    z = (rng.normal(size=(300, 4)) + np.eye(4)[y]).astype(np.float32)
    cells = Cells(y, cell, 3, 4, (0, 1, 2, 3))
    found = cells.extended(z.argmax(1), np.ascontiguousarray(z.T), -1, 0.9)
    for k in range(3):
        own, s = y[cell == k], z[cell == k]
        row = dict(zip(EXTENDED, found[k], strict=True))
        one_hot = np.eye(4)[own]
        assert row["roc_auc"] == pytest.approx(reference.roc_auc_score(one_hot, s))
        assert row["pr_auc"] == pytest.approx(reference.average_precision_score(one_hot, s))
        assert row["macro_f1"] == pytest.approx(
            reference.f1_score(own, s.argmax(1), average="macro")
        )
        assert row["f1"] == NO_SCORE


def test_classes_ranked_one_at_a_time_give_the_same_numbers(monkeypatch):
    dice = np.random.default_rng(4)
    y, cell = dice.integers(4, size=60), dice.integers(5, size=60)
    scores = np.round(dice.normal(size=(4, 60)), 1)  # with ties
    cells = Cells(y, cell, 5, 4, (0, 1, 2, 3))
    at_once = cells.ranking(scores, 0.5)
    monkeypatch.setattr("atoll.tasks.metrics._RANKED_AT_ONCE", 1)
    assert np.array_equal(cells.ranking(scores, 0.5), at_once)


def test_a_class_that_a_cell_lacks_does_not_count_in_its_mean():
    """Class 2 is absent: the mean is over classes 0 and 1, which are ranked perfectly."""
    z = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]], dtype=np.float32)
    cells = Cells(np.array([0, 1]), np.array([0, 0]), 1, 3, (0, 1, 2))
    [row] = cells.extended(z.argmax(1), np.ascontiguousarray(z.T), -1, 0.9)
    assert dict(zip(EXTENDED, row, strict=True))["roc_auc"] == 1.0


def test_the_confusion_counts_true_classes_in_rows():
    cells = Cells(np.array([0, 0, 1]), np.array([0, 0, 0]), 1, 2, (1,))
    [table] = cells.confusion(np.array([0, 1, 1]))
    assert table.tolist() == [[1, 1], [0, 1]]
    assert f1_of(table[None], 0).tolist() == [pytest.approx(2 / 3)]


def test_what_is_better_and_what_is_never_predicted():
    assert better("accuracy", 0.9, 0.8)
    assert better("loss", 0.8, 0.9)
    assert best_of("loss", [0.5, 0.2, 0.2]) == 1
    assert best_of("pr_auc", [0.1, 0.5, 0.5]) == 1
    assert never_predicted(np.array([0, 1, 2]), np.array([0, 0, 2]), 4) == [1]
