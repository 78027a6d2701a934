"""A made-up comparison: three sites, three seeds, and numbers worked out by hand.

By seed, alone and joined with fed-avg:

    north   0.50 0.50 0.50  ->  0.55 0.55 0.56     always better
    south   0.80 0.80 0.80  ->  0.70 0.69 0.68     always worse
    west    0.60 0.60 0.60  ->  0.50 0.70 0.80     now this, now that
"""

import math
from pathlib import Path

import pytest

from atoll.comparison.outcome import Comparison, Kept, concluded
from atoll.comparison.plan import Plan
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.report.console import console
from atoll.report.joining import pages

ALONE = [[0.50, 0.80, 0.60]] * 3
JOINED = [[0.55, 0.70, 0.50], [0.55, 0.69, 0.70], [0.56, 0.68, 0.80]]
ORACLE = [[0.9], [0.9], [0.9]]


def run(label, seed, scores, val, metric="accuracy", nodes=10):
    known = [score for score in scores if score is not None]
    return Kept(
        label=label,
        seed=seed,
        metric=metric,
        pooled=label == "centralized",
        test=sum(known) / len(known),
        val=val,
        clients=dict(enumerate(scores)),
        nodes=dict.fromkeys(range(len(scores)), nodes),
        summary={
            "best_round": 1, "seconds_per_round": 0.1, "bytes_up": 0, "bytes_down": 0,
            "run_dir": f"{label}/{seed}",
        },
    )  # fmt: skip


def compared(scores, seeds=3, vals=None, metric="accuracy"):
    methods = {label: resolve({"method": {"name": label}}) for label in scores}
    plan = Plan(methods, tuple(range(seeds)), ("north", "south", "west"))
    runs = [
        run(label, seed, scores[label][seed], (vals or {}).get(label, 0.5), metric)
        for seed in range(seeds)
        for label in scores
    ]
    return concluded(plan, runs, Path("out"))


@pytest.fixture
def found() -> Comparison:
    return compared({"local": ALONE, "fed-avg": JOINED, "centralized": ORACLE})


def test_methods_have_mean_std_and_the_paired_difference_to_local(found):
    local, joined, oracle = found.methods.to_dicts()
    assert local["mean"] == pytest.approx(1.9 / 3)
    assert local["std"] == pytest.approx(0)
    assert local["difference"] is None
    # Means over sites by seed: 1.75 / 3, 1.94 / 3, 2.04 / 3; minus 1.9 / 3.
    gaps = [-0.15 / 3, 0.04 / 3, 0.14 / 3]
    middle = 0.01 / 3
    spread = math.sqrt(sum((gap - middle) ** 2 for gap in gaps) / 2)
    assert joined["mean"] == pytest.approx(5.73 / 9)
    assert joined["std"] == pytest.approx(spread)
    assert joined["difference"] == pytest.approx(middle)
    half = 4.302652729911275 * spread / math.sqrt(3)
    assert (joined["low"], joined["high"]) == pytest.approx((middle - half, middle + half))
    t = middle / (spread / math.sqrt(3))
    assert joined["p"] == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert oracle["difference"] == pytest.approx(0.9 - 1.9 / 3)


def test_sites_are_named_and_judged(found):
    rows = {row["site"]: row for row in found.sites.to_dicts()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "north": "join",
        "south": "stay",
        "west": "unclear",
    }
    south = rows["south"]
    assert (south["alone"], south["joined"]) == pytest.approx((0.8, 0.69))
    assert south["difference"] == pytest.approx(-0.11)
    assert south["high"] == pytest.approx(-0.11 + 4.302652729911275 * 0.01 / math.sqrt(3))
    assert found.verdicts("fed-avg") == {"join": 1, "stay": 1, "unclear": 1}
    assert found.joined == ["fed-avg"]  # pooling all data is nothing a site can join


def test_a_site_without_a_score_with_some_seed_is_judged_by_the_others():
    joined = [[None, 0.70, 0.50], *JOINED[1:]]
    north, south, _ = compared({"local": ALONE, "fed-avg": joined}).sites.to_dicts()
    assert (north["seeds"], south["seeds"]) == (2, 3)
    assert north["difference"] == pytest.approx(0.055)
    assert (north["low"], north["verdict"]) == (None, "unclear")


def test_the_best_method_is_chosen_by_validation_alone():
    scores = {"local": ALONE, "fed-avg": JOINED, "fed-pub": ALONE}
    found = compared(scores, vals={"fed-avg": 0.6, "fed-pub": 0.7})
    assert found.best == "fed-pub"
    assert found.shown("best") == ["fed-pub"]
    assert found.shown("all") == ["fed-avg", "fed-pub"]


def test_of_losses_less_is_better():
    scores = {"local": ALONE, "fed-avg": JOINED, "fed-pub": ALONE}
    found = compared(scores, vals={"fed-avg": 0.6, "fed-pub": 0.7}, metric="loss")
    assert found.best == "fed-avg"
    assert found.sites["verdict"].to_list()[:3] == ["stay", "join", "unclear"]
    assert "south: 0.80 -> 0.69  -0.11 (-0.13 to -0.09, p = 0.0027)  join" in repr(found)


def test_json_has_one_shape_whatever_is_compared(found):
    one = compared({"fed-avg": JOINED}, seeds=1)
    assert found.summary().keys() == one.summary().keys()
    assert found.summary()["methods"][0].keys() == one.summary()["methods"][0].keys()
    assert found.sites.schema == one.sites.schema
    assert one.summary()["best"] is None
    assert any("Without the method 'local'" in text for text in one.cautions())


def test_too_few_seeds_are_said():
    found = compared({"local": ALONE, "fed-avg": JOINED}, seeds=2)
    assert found.verdicts("fed-avg") == {"join": 0, "stay": 0, "unclear": 3}
    assert found.cautions()[0].startswith("2 is too few seeds for intervals and verdicts")


def test_sites_that_change_with_the_seed_are_said(found):
    assert found.cautions() == []
    runs = [run("local", seed, [0.5, 0.5, 0.5], 0.5, nodes=10 + seed) for seed in range(3)]
    assert "other nodes with every seed" in concluded(found.plan, runs, Path()).cautions()[0]


def test_runs_scored_by_different_measures_are_not_compared(found):
    runs = [run("local", 0, [0.5], 0.5), run("fed-avg", 0, [0.5], 0.5, metric="auc")]
    with pytest.raises(AtollError, match="scored by accuracy and auc"):
        concluded(found.plan, runs, Path())


def test_people_read_names_verdicts_and_counts(found, capsys):
    text = repr(found)
    assert "fed-avg: 63.67" in text
    assert "south: 80.00 -> 69.00  -11.00 (-13.48 to -8.52, p = 0.0027)  stay" in text
    assert "Joining with fed-avg: 1 of 3 sites gained, 1 lost, 1 unclear." in text
    for page in pages(found, "best"):
        console().print(page)
    shown = capsys.readouterr().out
    for part in ("seeds 0 to 2", "north", "-13.48 to -8.52", "stay", "1 of 3 sites gained"):
        assert part in shown
