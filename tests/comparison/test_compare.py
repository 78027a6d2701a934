"""Comparisons that train: going on after a stop, in processes, and what is refused."""

import json
import signal
from dataclasses import replace

import numpy as np
import pytest

import atoll
from atoll.comparison.compare import resume_comparison
from atoll.data.in_memory import from_graph
from atoll.data.split import Split
from atoll.errors import AtollError, Interrupted
from atoll.graph import Holding, make_graph
from atoll.methods.fed_prox import FedProx

SMALL = {
    "methods": ["local", "fed-avg"],
    "data": "patients",
    "partition": "metis",
    "clients": 3,
    "rounds": 3,
    "settings": {"model.hidden": 4},
}
ALIKE = ("method", "seed", "test", "val", "best_round", "bytes_up")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return atoll.compare(**SMALL, seeds=3, out=tmp_path_factory.mktemp("whole") / "c")


def same(one, other):
    assert one.sites.equals(other.sites)
    assert one.methods.equals(other.methods)
    assert one.runs.select(ALIKE).equals(other.runs.select(ALIKE))


def test_one_directory_holds_all(whole):
    for method in SMALL["methods"]:
        for seed in range(3):
            assert (whole.out / method / f"seed-{seed}" / "summary.json").is_file()
    kept = json.loads((whole.out / "comparison.json").read_text())
    assert kept == json.loads(json.dumps(whole.summary()))
    lines = {name: (whole.out / f"{name}.csv").read_text().splitlines() for name in
             ("methods", "sites", "runs")}  # fmt: skip
    assert {name: len(text) - 1 for name, text in lines.items()} == {
        "methods": 2, "sites": 3, "runs": 6,
    }  # fmt: skip


def test_each_run_is_what_atoll_run_gives_with_the_same_cut(whole, tmp_path):
    one = {k: v for k, v in SMALL.items() if k != "methods"}
    one["settings"] = one["settings"] | {"run.cut_seed": 0}
    result = atoll.run(method="fed-avg", **one, seed=2, out=tmp_path / "run")
    rows = {(row["method"], row["seed"]): row for row in whole.runs.to_dicts()}
    assert rows["fed-avg", 2]["test"] == result.test_score


def test_sites_stay_the_same_sites_with_every_seed(whole):
    sizes = [[c["nodes"] for c in run["per_client"]] for run in whole.summary()["runs"]]
    assert all(size == sizes[0] for size in sizes)
    assert whole.plan.sites == ("client 0", "client 1", "client 2")


@pytest.mark.parametrize(("by", "jobs"), [("resume", 1), ("compare", 1), ("compare", 2)])
def test_interrupted_it_goes_on_to_the_same(by, jobs, whole, tmp_path):
    calls = []

    def stop(done, total, note):
        calls.append(done)
        if done == 5:  # amid the second run
            signal.raise_signal(signal.SIGINT)

    out = tmp_path / "c"
    with pytest.raises(Interrupted, match=r"with 1 of 6 runs complete; .*atoll resume"):
        atoll.compare(**SMALL, seeds=3, out=out, progress=stop)
    assert not (out / "comparison.json").exists()
    with pytest.raises(AtollError, match="is a comparison, not a run"):
        atoll.resume(out)
    if by == "resume":
        again = resume_comparison(out, jobs)
    else:
        again = atoll.compare(**SMALL, seeds=3, jobs=jobs, out=out)
    same(again, whole)


def test_processes_stop_after_their_round_and_go_on(whole, tmp_path):
    def stop(done, total, note):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="atoll resume"):
        atoll.compare(**SMALL, seeds=3, jobs=2, out=tmp_path / "c", progress=stop)
    same(resume_comparison(tmp_path / "c"), whole)


def test_progress_counts_the_rounds_of_all_runs(tmp_path):
    seen = []
    atoll.compare(**SMALL, seeds=2, out=tmp_path / "c", progress=lambda *now: seen.append(now))
    # After every round, and when a run is complete.
    assert [done for done, _, _ in seen] == [1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 12]
    assert {total for _, total, _ in seen} == {12}
    assert seen[-1][2] == "4 of 4 runs; fed-avg, seed 1"


def test_seeds_and_methods_can_join_what_is_there(whole, tmp_path):
    out = tmp_path / "c"
    atoll.compare(**SMALL | {"methods": ["local"]}, seeds=2, out=out)
    before = (out / "local/seed-0/summary.json").stat().st_mtime_ns
    same(atoll.compare(**SMALL, seeds=3, out=out), whole)
    assert (out / "local/seed-0/summary.json").stat().st_mtime_ns == before


def test_what_holds_something_else_is_refused_and_left_alone(whole, tmp_path):
    with pytest.raises(AtollError, match=r"holds another comparison: \S+ has run.rounds = 3"):
        atoll.compare(**SMALL | {"rounds": 4}, out=whole.out)
    (tmp_path / "file").touch()
    with pytest.raises(AtollError, match=r"'.*file' is a file; choose another --out"):
        atoll.compare(**SMALL, out=tmp_path / "file")
    with pytest.raises(AtollError, match=r"'.*file' is a file; choose another --out"):
        atoll.compare(**SMALL, out=tmp_path / "file" / "below")
    with pytest.raises(AtollError, match="holds something else"):
        atoll.compare(**SMALL, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seeds": 0}, "--seeds is 0; it must be at least 1"),
        ({"seeds": -3}, "--seeds is -3; it must be at least 1"),
        ({"jobs": 0}, "--jobs is 0; it must be at least 1"),
        ({"methods": ["local", "nope"]}, "unknown method 'nope'"),
        ({"methods": []}, "no method to compare"),
        ({"methods": {"a/b": "local"}}, "'a/b' can't be the name of a folder"),
        ({"methods": [FedProx(), FedProx(mu=2.0)], "settings": {}}, "two methods are called"),
    ],
)
def test_what_makes_no_comparison_is_one_sentence(wrong, says, tmp_path):
    with pytest.raises(AtollError, match=says):
        atoll.compare(**SMALL | wrong, out=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def owned():
    """Thirty nodes on a ring; three owners with names, one of them without a test node."""
    n = np.arange(30)
    edges = np.stack([np.concatenate([n, (n + 1) % 30]), np.concatenate([(n + 1) % 30, n])])
    rng = np.random.default_rng(0)
    split = {"train": n % 3 == 0, "val": n % 3 == 1, "test": (n % 3 == 2) & (n < 20)}
    names = ("Bank of Oslo", "Café", "client 7")
    holdings = tuple(Holding(name, n[i * 10 : i * 10 + 10]) for i, name in enumerate(names))
    graph = make_graph(rng.normal(size=(30, 4)), edges, n % 2, name="ring")
    return replace(graph, **split, holdings=holdings)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_graph_in_memory_whose_owners_have_names(jobs, tmp_path):
    graph = owned()
    found = atoll.compare(
        methods={"alone": "local", "mild": FedProx(mu=0.1), "local": "local"},
        data=from_graph(graph), partition="natural", split=Split(kind="public"), rounds=2, seeds=3,
        jobs=jobs, out=tmp_path / "c",
    )  # fmt: skip
    assert found.plan.sites == ("Bank of Oslo", "Café", "client 7")
    rows = found.sites.filter(found.sites["method"] == "mild").to_dicts()
    assert rows[2]["alone"] is None  # no test node, no score, no verdict
    assert rows[2]["verdict"] == "unclear"
    assert rows[0]["seeds"] == 3
    assert "Bank of Oslo: " in repr(found)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_every_run_says_is_said_once(jobs, tmp_path, caplog):
    """Also by processes of their own, in the voice of the first."""
    methods = ["fed-pub", "local"]
    atoll.compare(**SMALL | {"methods": methods}, seeds=2, jobs=jobs, out=tmp_path / "c")
    said = [r.getMessage() for r in caplog.records if "no mask dropped an entry" in r.getMessage()]
    assert len(said) == 1
    remarks = [
        json.loads((tmp_path / "c/fed-pub" / f"seed-{seed}" / "summary.json").read_text())[
            "remarks"
        ]
        for seed in range(2)
    ]
    assert all("no mask dropped an entry" in " ".join(found) for found in remarks)


def test_a_command_for_runs_names_those_of_a_comparison(whole):
    with pytest.raises(AtollError) as refusal:
        atoll.predict(whole.out)
    first = whole.out / "fed-avg" / "seed-0"
    assert f"name one of the 6 runs in it, such as {first}." in str(refusal.value)
