"""Testing on the whole graph, and the thesis's weighted averages."""

import numpy as np
import polars
import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import Interrupted
from atoll.experiment import runner
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, load_whole, resume, run_experiment
from atoll.experiment.whole_graph import WholeGraph
from atoll.federation.calls import Replies
from atoll.tree import under

SMALL = {
    "method": {"name": "no-augment", "alpha": 0.01},
    "data": {"name": "patients"},
    "partition": {"name": "louvain-anchors", "clients": 3},
    "model": {"hidden": 8, "head": "graph"},
    "run": {"rounds": 6, "whole_graph": True},
}


def test_a_clients_model_is_scored_on_the_whole_graph(tmp_path):
    experiment = resolve(SMALL)
    result = run_experiment(experiment, tmp_path / "run")
    whole = load_whole(experiment)
    model_K = under(result.parameters, "clients/model")
    best = result.history.filter(round=result.best_round).sort("client")
    assert best["test_whole"].null_count() == 0
    shares = {c["client"]: c["train_nodes"] * c["nodes"] for c in result.per_client}
    weight = np.array([shares[c] for c in best["client"]]) / sum(shares.values())
    for name in ("accuracy", "whole"):
        expected = float((weight * best[f"test_{name}"].to_numpy()).sum())
        assert result.figures[f"test_weighted_{name}"] == pytest.approx(expected)
    scored = WholeGraph(experiment.method, whole, Cohort(load_parties(experiment).graphs))
    found = scored._scores({f"model/{n}": p for n, p in model_K.items()})
    for k in range(3):
        one = {n: p[k : k + 1] for n, p in model_K.items()}
        logits = experiment.method.model.apply(one, Cohort([whole]))
        right = (logits.argmax(1).numpy() == whole.y)[whole.test].mean()
        assert found[k, 2] == pytest.approx(right)


def test_only_rounds_that_may_be_reported_are_scored(tmp_path):
    result = run_experiment(resolve(SMALL), tmp_path / "run")
    rounds = result.history.group_by("round").agg(
        polars.col("val_accuracy").mean(), polars.col("test_whole").null_count() == 0
    )
    best = -1.0
    for r, val, scored in rounds.sort("round").rows():
        assert scored == (val >= best - 1e-9 or r == len(rounds))
        best = max(best, val)


def test_a_resumed_run_scores_the_same_rounds(tmp_path, monkeypatch):
    straight = run_experiment(resolve(SMALL), tmp_path / "straight")
    original = runner._Loop._round

    def interrupted(self):
        original(self)
        if self.rounds.done == 3:
            self._save()
            raise Interrupted("stopped")

    with monkeypatch.context() as halt:
        halt.setattr(runner._Loop, "_round", interrupted)
        with pytest.raises(Interrupted):
            run_experiment(resolve(SMALL), tmp_path / "halted")
    again = resume(tmp_path / "halted")
    assert again.history.equals(straight.history, null_equal=True)
    assert again.figures == straight.figures


def test_a_client_without_test_nodes_has_no_say():
    experiment = resolve(SMALL)
    graphs = load_parties(experiment).graphs
    scored = WholeGraph(experiment.method, load_whole(experiment), Cohort(graphs))
    scored.best = 2.0  # so that nothing is scored on the whole graph
    scored.weight = {0: 1.0, 1: 3.0, 2: 6.0}
    accuracy = torch.tensor([[0.5, 0.5, 0.5], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]).double()
    nodes = torch.tensor([[4, 4, 4], [4, 4, 4], [4, 4, 0]]).double()
    body = {"metric/accuracy": accuracy, "metric/nodes": nodes}
    found = scored.added_to(Replies((0, 1, 2), body, torch.ones(3), torch.arange(3)), {}).body
    weighted = found["metric/weighted_accuracy"]
    assert weighted[:, 0].mean().item() == pytest.approx(0.1 * 0.5 + 0.3 * 1.0)
    assert weighted[:2, 2].mean().item() == pytest.approx(0.25 * 0.5 + 0.75 * 1.0)
    assert weighted[2, 2].isnan()
    assert found["metric/whole"].isnan().all()
