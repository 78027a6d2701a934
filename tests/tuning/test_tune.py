"""Searches that train: by validation alone, pruned, interrupted and identical."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import atoll
from atoll.data.in_memory import from_graph
from atoll.errors import AtollError, Interrupted
from atoll.experiment.trial import small_graph
from atoll.tuning.tune import resume_search

SMALL = {
    "method": "fed-prox",
    "data": "digits",
    "partition": "random",
    "clients": 3,
    "rounds": 8,
    "settings": {"model.hidden": 8, "method.epochs": 2},
}
OVER = {"optimizer.lr": "0.0001..0.5:log", "method.mu": [0.01, 1.0]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return atoll.tune(**SMALL, over=OVER, trials=9, out=tmp_path_factory.mktemp("whole") / "t")


def test_the_best_is_reproduced_by_a_run(whole, tmp_path):
    complete = [row for row in whole.rows if row["state"] == "complete"]
    assert whole.score == max(row["score"] for row in complete)
    by_file = atoll.run(whole.best_config, out=tmp_path / "a")
    assert by_file.val_accuracy == whole.score
    merged = SMALL | {"settings": SMALL["settings"] | whole.settings}
    assert atoll.run(**merged, out=tmp_path / "b").val_accuracy == whole.score


def test_the_first_trial_is_the_experiment_itself(whole, tmp_path):
    plain = atoll.run(**SMALL, out=tmp_path / "r")
    assert whole.rows[0]["optimizer.lr"] == plain.experiment.method.optimizer.lr
    assert whole.rows[0]["score"] == plain.val_accuracy
    assert whole.score >= plain.val_accuracy


def test_hopeless_trials_are_given_up(whole):
    states = [row["state"] for row in whole.rows]
    assert states[:5] == ["complete"] * 5  # a quarter needs some
    assert "pruned" in states
    best = whole.score
    assert all(row["score"] < best for row in whole.rows if row["state"] == "pruned")


def test_importance_are_shares(whole):
    assert set(whole.importance) == set(OVER)
    assert sum(whole.importance.values()) == pytest.approx(1)


def test_nothing_of_a_test_score_is_kept(whole):
    names = sorted(path.name for path in whole.out.rglob("*") if path.is_file())
    assert names == ["best.toml", "results.json", "trials.csv", "trials.db", "tuning.json"]
    for name in names:
        assert b"test_" not in (whole.out / name).read_bytes()


def test_test_labels_have_no_say(tmp_path):
    """With the labels of all test nodes turned round, the search is the same search."""
    graph = small_graph()
    turned = np.where(graph.test, (graph.y + 1) % graph.classes, graph.y)
    over = {"optimizer.lr": "0.001..0.5:log"}
    found = [
        atoll.tune(data=from_graph(g), method="fed-avg", partition="natural", rounds=3, trials=4,
                   settings={"split.kind": "public"}, over=over, out=tmp_path / str(i))
        for i, g in enumerate((graph, replace(graph, y=turned)))
    ]  # fmt: skip
    assert found[0].rows == found[1].rows


def test_interrupted_twice_it_finds_the_same(whole, tmp_path):
    out = tmp_path / "t"

    def stop(done, total, note):
        if done == 20:  # amid the third trial
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="in trial 3 of 9; continue with: atoll resume"):
        atoll.tune(**SMALL, over=OVER, trials=9, out=out, progress=stop)
    code = (
        "import sys, atoll; from pathlib import Path\n"
        "from atoll.tuning.tune import resume_search\n"
        "resume_search(Path(sys.argv[1]), lambda *now: print(now[0], flush=True))\n"
    )
    work = subprocess.Popen(
        [sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, text=True
    )
    with work.stdout:
        for line in work.stdout:
            if int(line) >= 43:  # amid the sixth
                work.kill()
                break
    work.wait()
    assert work.returncode == -signal.SIGKILL
    again = resume_search(out)
    assert again.summary() == whole.summary()
    assert (out / "best.toml").read_bytes() == (whole.out / "best.toml").read_bytes()


def test_more_trials_begin_with_the_same(whole, tmp_path):
    out = tmp_path / "t"
    atoll.tune(**SMALL, over=OVER, trials=3, out=out)
    more = atoll.tune(**SMALL, over=OVER, trials=9, out=out)
    assert more.rows == whole.rows
    fewer = atoll.tune(**SMALL, over=OVER, trials=2, out=out)
    assert fewer.rows == whole.rows  # what was tried is not forgotten


def test_a_grid_is_tried_whole_and_once(tmp_path):
    over = {"method.mu": [0.0, 0.1, 1.0], "method.epochs": [1, 2]}
    settings = {**SMALL, "rounds": 2, "settings": {"model.hidden": 8}}
    found = atoll.tune(**settings, over=over, trials=50, prune=False, out=tmp_path / "a")
    points = {(row["method.mu"], row["method.epochs"]) for row in found.rows}
    assert len(found.rows) == len(points) == 6
    first = atoll.tune(**settings, over=over, trials=4, prune=False, out=tmp_path / "b")
    assert first.rows == found.rows[:4]


def test_the_score_is_the_mean_over_seeds(tmp_path):
    settings = SMALL | {"rounds": 2}
    found = atoll.tune(**settings, over={"method.mu": [0.5]}, seeds=2, seed=3, out=tmp_path / "t")
    more = SMALL["settings"] | {"method.mu": 0.5}
    runs = [
        atoll.run(**settings | {"settings": more}, seed=s, out=tmp_path / str(s)) for s in (3, 4)
    ]
    assert found.score == pytest.approx(sum(run.val_accuracy for run in runs) / 2)
    assert found.experiment.run.seed == 3


def test_less_of_a_loss_is_better(tmp_path):
    found = atoll.tune(**SMALL | {"rounds": 2}, metric="loss", over={"optimizer.lr": [0.001, 0.1]},
                       out=tmp_path / "t")  # fmt: skip
    assert found.score == min(row["score"] for row in found.rows)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"over": {}}, "nothing to tune"),
        ({"trials": 0}, "--trials is 0; it must be at least 1"),
        ({"seeds": 0}, "--seeds is 0; it must be at least 1"),
        ({"over": {"optimizer.rl": [1.0]}}, "unknown config key 'optimizer.rl'"),
        ({"over": {"optimizer.lr": "0..1"}}, "optimizer.lr is 0.0; it must be above 0"),
        ({"over": {"model.hidden": "1..64.5"}}, "model.hidden is 64.5, a float; it must be int"),
        ({"over": {"method.name": ["fed-agv"]}}, "unknown method 'fed-agv'"),
    ],
)
def test_mistakes_are_said_before_any_trial(change, says, tmp_path):
    with pytest.raises(AtollError, match=says):
        atoll.tune(**{**SMALL, "over": OVER, "out": tmp_path / "t"} | change)
    assert not (tmp_path / "t").exists()


def test_another_search_is_refused(whole, tmp_path):
    with pytest.raises(AtollError, match=r"another search: the search has run.rounds = 8 there"):
        atoll.tune(**SMALL | {"rounds": 3}, over=OVER, out=whole.out)
    with pytest.raises(AtollError, match=r"another search: the search has over.method.mu"):
        atoll.tune(**SMALL, over=OVER | {"method.mu": [3.0]}, out=whole.out)
    with pytest.raises(AtollError, match="a search over other settings"):
        atoll.tune(**SMALL, over={"method.mu": [0.01, 1.0]}, out=whole.out)


def test_a_trial_that_can_not_be_is_a_failed_one(tmp_path, caplog):
    over = {"partition.clients": [3, 200]}
    found = atoll.tune(data="patients", partition="random", method="local", rounds=2, over=over,
                       out=tmp_path / "t")  # fmt: skip
    assert sorted(row["state"] for row in found.rows) == ["complete", "fail"]
    assert "failed" in caplog.text
    assert found.settings == {"partition.clients": 3}


def test_the_command(here):
    fast = ["tune", "--data", "patients", "--partition", "random", "--clients", "3", "--rounds",
            "2", "--method", "fed-prox", "--over", "method.mu=[0.1,1]"]  # fmt: skip
    done = here(*fast, "--out", "t")
    assert done.returncode == 0, done.stderr
    assert "Run the best with: atoll run t/best.toml" in done.stdout
    assert "2 trials, 0 of them given up early" in " ".join(done.stdout.split())
    assert here("resume", "t").stdout == done.stdout
    assert here("run", "t/best.toml", "--out", "r").returncode == 0
    kept = json.loads(here(*fast, "--out", "t", "--json").stdout)
    assert len(kept["trials"]) == 2
    wrong = here(*fast, "--over", "method.mux=[1]")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("atoll: unknown config key 'method.mux'")


def test_without_optuna_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(AtollError, match=r"pip install 'atoll\[tune\]'"):
        atoll.tune(**SMALL, over=OVER, out=tmp_path / "t")
