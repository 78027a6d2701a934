"""What a run keeps to be drawn: matrices, counts and curves, the same after an interruption."""

import numpy as np
import polars
import pytest
import torch
from sklearn.metrics import average_precision_score

from atoll.experiment.looks import Looks
from atoll.experiment.runner import resume
from atoll.tasks.confusion import confusion_table, precision_recall, precision_recall_table
from atoll.tasks.metrics import Cells
from atoll.tasks.pooled import Listener


def heard():
    """Two clients of four nodes, of which the last three of each are test nodes."""
    y = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    cell = np.array([0, 2, 2, 2, 3, 5, 5, 5])
    guess = np.array([0, 0, 1, 0, 1, 0, 0, 1])
    scores = np.array([[0.1, 0.2, 0.9, 0.4, 0.9, 0.3, 0.3, 0.8]])
    listener = Listener()
    cells = Cells(y, cell, 6, 2, (1,))
    listener.hear((0, 1), cells, guess, lambda: scores, np.zeros(8), 1, 0.9, ("no", "yes"))
    return listener


def test_counts_are_those_of_test_nodes_by_client():
    assert confusion_table(heard()).rows() == [
        (0, "no", "no", 1), (0, "yes", "no", 1), (0, "yes", "yes", 1),
        (1, "no", "no", 1), (1, "yes", "no", 1), (1, "yes", "yes", 1),
    ]  # fmt: skip


def test_the_curve_falls_as_it_should():
    """Down from the largest score: yes, yes, yes, then a tie of yes and no, then no."""
    table = precision_recall_table(heard())
    assert table["recall"].to_list() == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert table["precision"].to_list() == pytest.approx([1, 1, 1, 4 / 5, 4 / 6])
    assert table["pr_auc"][0] == pytest.approx(0.75 + 0.25 * 4 / 5)
    assert table["share"][0] == pytest.approx(4 / 6)


def test_a_thinned_curve_has_the_area_of_the_whole():
    dice = np.random.default_rng(0)
    right = dice.random(5000) < 0.1
    scores = (dice.normal(size=5000) + right).astype(np.float32)
    recall, precision, area = precision_recall(scores, right)
    assert len(recall) == len(precision) <= 80
    assert recall[-1] == 1
    assert area == pytest.approx(average_precision_score(right, scores))


def test_no_more_than_fifty_matrices_are_kept_the_first_and_the_last_among_them():
    looks = Looks(rounds=120)
    for r in range(1, 121):
        looks.see(r, lambda: torch.eye(2), r == 120)
    assert list(looks.alike) == [1, *range(3, 121, 3)]
    again = Looks(rounds=120)
    again.restore(looks.tables(), last=9)
    assert list(again.alike) == [1, 3, 6, 9]
    assert np.array_equal(again.alike[9], np.eye(2))


def test_the_best_round_takes_the_place_of_the_one_before_it():
    looks = Looks()
    for r, leads in ((1, True), (2, True), (5, False)):
        looks.hear(r, heard(), leads)
    assert sorted(set(looks.tables()["confusion"]["round"])) == [2, 5]
    again = Looks()
    again.restore(looks.tables(), last=4)
    assert set(again.tables()["confusion"]["round"]) == {2}


def test_an_interrupted_run_keeps_the_same(tmp_path):
    """Stopped in its middle by an error, continued from its checkpoint."""
    from atoll.errors import Interrupted
    from atoll.experiment import runner
    from atoll.experiment.choices import choose

    chosen = choose(
        method="fed-pub", data="patients", partition="random", clients=3, rounds=6,
        settings={"run.checkpoint_seconds": 0.0}.items(),
    )  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    runner.run_experiment(chosen, whole)

    def stop(round, _):
        if round == 4:
            raise Interrupted("now")

    with pytest.raises(Interrupted):
        runner.run_experiment(chosen, broken, stop)
    resume(broken)
    for name in ("similarity", "confusion", "precision_recall"):
        one, other = (polars.read_parquet(d / f"{name}.parquet") for d in (whole, broken))
        assert one.equals(other), name


def test_clusters_are_blocks_of_ones():
    from atoll.methods.gcfl import GCFL

    between = GCFL().similarities({"cluster": {"of": torch.tensor([0, 1, 0])}})
    assert between.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
