"""A table of which 2.5 % of the nodes are of one class, from the files to the summary."""

import csv
import logging

import numpy as np
import pytest

import atoll
from atoll.errors import AtollError

SHARE = 0.025


@pytest.fixture
def tables(tmp_path):
    """Accounts of two banks, some of them fraudulent; transfers join mostly the like."""
    rng = np.random.default_rng(3)
    n = 1200
    fraud = np.arange(n) % round(1 / SHARE) == 0
    x = rng.normal(size=(n, 3)) + 1.5 * fraud[:, None]
    with (tmp_path / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "bank", "a", "b", "c", "label"])
        for i in range(n):
            bank = "north" if rng.random() < 0.5 else "south"
            table.writerow([f"n{i}", bank, *x[i].round(4), "fraud" if fraud[i] else "ok"])
    with (tmp_path / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for i in range(n):
            like = np.flatnonzero(fraud == fraud[i])
            table.writerow([f"n{i}", f"n{rng.choice(like[like != i])}"])
    return {
        "data.nodes": str(tmp_path / "nodes.csv"),
        "data.edges": str(tmp_path / "edges.csv"),
        "data.label": "label",
        "split.train": 0.4,
        "split.val": 0.3,
        "split.test": 0.3,
        "model.hidden": 8,
    }


def run(tables, out, **options):
    settings = tables | options.pop("settings", {})
    return atoll.run(
        method="fed-avg", data="tables", owner="bank", rounds=8, settings=settings, out=out,
        **options,
    )  # fmt: skip


def test_pr_auc_leads_and_the_majority_is_said(tables, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="atoll"):
        result = run(tables, tmp_path / "run")
    assert result.metric == "pr_auc"
    assert result.test_score == result.figures["test_pr_auc"]
    assert "class 'fraud' is rare" in caplog.text
    assert "always answering 'ok' would score 97." in caplog.text
    means = result.history.group_by("round").mean().sort("round")["val_pr_auc"]
    assert result.best_round == means.arg_max() + 1
    for name in ("pr_auc", "roc_auc", "f1", "macro_f1", "balanced_accuracy", "loss"):
        assert f"test_{name}" in result.over_all
        assert all(f"test_{name}" in client for client in result.per_client)
    assert result.over_all["test_pr_auc"] > SHARE


def test_a_metric_that_is_named_wins(tables, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="atoll"):
        result = run(tables, tmp_path / "run", metric="accuracy")
    assert result.metric == "accuracy"
    assert result.summary()["test_accuracy"] == pytest.approx(result.test_accuracy)
    assert any("never predicts the class fraud" in note for note in result.notes)
    assert any("is the first one" in note for note in result.notes)
    assert all(note in caplog.text for note in result.notes)


def test_balanced_classes_find_some_of_the_rare_one(tables, tmp_path):
    plain = run(tables, tmp_path / "plain")
    balanced = run(tables, tmp_path / "balanced", settings={"task.class_weight": "balanced"})
    key = "test_balanced_accuracy"
    assert balanced.over_all[key] > plain.over_all[key] + 0.1


def test_the_lowest_loss_is_the_best(tables, tmp_path):
    result = run(tables, tmp_path / "run", metric="log-loss")
    means = result.history.group_by("round").mean().sort("round")["val_loss"]
    assert result.best_round == means.arg_min() + 1


def test_a_metric_of_another_task_is_refused_before_anything_is_written(tables, tmp_path):
    with pytest.raises(AtollError, match=r"run\.metric is 'auc'"):
        run(tables, tmp_path / "run", metric="auc")
    assert not (tmp_path / "run").exists()
