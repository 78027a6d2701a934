"""A run says so when what a method is for did not happen in it."""

import json
import logging

import pytest

import atoll
from atoll.experiment.result import load_result
from atoll.experiment.runner import read_experiment

SHORT = {"data": "patients", "clients": 3, "rounds": 3, "out": "run", "partition": "metis"}
ANCHORS = SHORT | {"partition": "louvain-anchors"}

MISSED = {
    "phase 2 never reached": ("fed-gala", ANCHORS, {}, "phase 1 had not converged after 3 rounds"),
    "no anchors": ("fed-gala", SHORT, {}, "no two clients share a node"),
    "phase 3 never reached": ("no-augment", SHORT, {}, "the task's own loss was never trained"),
    "no split within the warm-up": ("gcfl", SHORT, {}, "more rounds than method.warmup (20)"),
    "too few clients to split": ("gcfl", SHORT | {"clients": 2}, {}, "only more than 2 clients"),
    "no similar node": ("fed-gnn", SHORT, {"threshold": 1.0}, "lower method.threshold (1)"),
    "nothing to match": ("fed-gnn", SHORT, {"match": "anchors"}, "method.match=similar"),
    "no pseudo-label": ("self-training", SHORT, {"pseudo": 0}, "method.pseudo is 0"),
    "within self-training": ("self-training", SHORT, {"inner": "gcfl"}, "no cluster split"),
    "a pull of one step": ("fed-prox", SHORT, {"epochs": 1}, "set method.epochs to 2 or more"),
    "no class is new": ("fed-avg-transfer", SHORT, {}, "set method.new_classes"),
    "no entry dropped": ("fed-pub", SHORT, {}, "no mask dropped an entry"),
    "nothing to align": ("ppfl-gat", SHORT, {}, "nothing was aligned"),
}
DONE = {
    "phase 2": ("fed-gala", ANCHORS, {"combined_rounds": 1}),
    "a pull": ("fed-prox", SHORT, {}),
    "phase 2 on the usual cut": ("fed-gala", SHORT | {"partition": None, "rounds": 21}, {}),
    "some entries dropped": ("fed-pub", SHORT, {"threshold": 1.0}),
    "no mask is wanted": ("fed-pub", SHORT, {"masks": False}),
    "no pull is wanted": ("fed-prox", SHORT, {"mu": 0.0}),
    "a split": ("gcfl", SHORT, {"warmup": 1}),
    "halo nodes": ("fed-gnn", SHORT, {}),
    "pseudo-labels": ("self-training", SHORT, {}),
    "an alignment": ("ppfl-gat", ANCHORS, {}),
    "no exchange is wanted": ("ppfl-gat", SHORT, {"exchange": False}),
    "links between clients": ("gfl-appnp", SHORT, {}),
    "nothing is promised": ("fed-avg", SHORT, {}),
}


def run(method, choices, options):
    settings = {f"method.{name}": value for name, value in options.items()}
    return atoll.run(method=method, settings=settings, **choices)


@pytest.mark.parametrize("case", MISSED)
def test_what_did_not_happen_is_said_and_kept(case, in_tmp, caplog):
    method, choices, options, sentence = MISSED[case]
    with caplog.at_level(logging.WARNING, "atoll"):
        result = run(method, choices, options)
    [remark] = result.remarks
    assert sentence in remark
    assert f"{method}: {remark}" in caplog.messages
    assert json.loads((in_tmp / "run" / "summary.json").read_text())["remarks"] == [remark]
    assert load_result(result.run_dir, read_experiment(result.run_dir)).remarks == (remark,)


@pytest.mark.parametrize("case", DONE)
def test_nothing_is_said_where_it_happened(case, in_tmp):
    assert run(*DONE[case]).remarks == ()


def test_several_remarks_are_all_said(in_tmp):
    links, pull = run("fed-gala-p", SHORT, {"epochs": 1}).remarks
    assert "no link was added" in links
    assert "the proximal pull had no effect" in pull


def test_a_summary_of_an_older_version_has_no_remarks(in_tmp):
    result = run("fed-avg", SHORT, {})
    path = in_tmp / "run" / "summary.json"
    older = json.loads(path.read_text())
    del older["remarks"]
    path.write_text(json.dumps(older))
    assert load_result(result.run_dir, result.experiment).remarks == ()
