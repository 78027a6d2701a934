"""What leaves a site, as the ledger has it: for every method, before a run and after one."""

import json

import polars
import pytest
from support import NAMES, make, small_parties, train, usual

import atoll
from atoll.errors import AtollError
from atoll.experiment.audit import WHY_PRIVATE, audit_method, audit_run, crossings
from atoll.experiment.choices import choose

every_method = pytest.mark.parametrize("name", NAMES)


def audited(name, **choices):
    return audit_method(choose(method=name, **choices), rounds=3, small=True)


def kinds(ledger, direction):
    return set(ledger.table().filter(direction=direction)["kind"])


@every_method
def test_an_audit_has_the_kinds_of_the_laws_and_no_private_one(name):
    audit = audited(name)
    hurried = train(make(name).hurried(), small_parties(name)).fed.ledger
    for direction in ("up", "down"):
        found = {c.kind for c in audit.crossings if c.direction == direction}
        assert found - {"metric"} == kinds(hurried, direction) - {"metric"}
        assert found >= kinds(usual(name).fed.ledger, direction)
    assert not {c.kind for c in audit.leaving} & audit.method.private
    assert set(audit.never_leaves) == (set() if audit.method.pooled else audit.method.private)


@every_method
def test_every_private_kind_has_a_reason(name):
    assert make(name).private <= set(WHY_PRIVATE)


def test_whether_sums_suffice():
    verdicts = {name: audited(name).sums_suffice for name in ("fed-avg", "gcfl", "local")}
    assert verdicts == {"fed-avg": True, "gcfl": False, "local": True}
    [weight, *_] = [c for c in audited("fed-avg").leaving if c.use == "weight"]
    assert (weight.shape, weight.each, weight.rounds, weight.bytes) == ("[]", False, 3, 3 * 4 * 8)


def test_scores_that_a_method_ends_with_do_not_need_the_replies():
    audit = audited("self-training")
    assert audit.sums_suffice
    assert {c.use for c in audit.leaving if c.step == "count_right"} == {"score"}


def test_a_later_phase_is_brought_forward_and_options_count():
    audit = audited("fed-gala")
    [anchors] = [c for c in audit.leaving if c.step == "share_anchors"]
    assert (anchors.name, anchors.rounds, anchors.each) == ("embedding/anchors", 1, True)
    assert audit.not_performed == ["sizes"]
    assert audit.hurried
    assert not audited("fed-avg").hurried
    sized = audited("fed-gala", settings=[("method.weights", "equal")])
    steps = {"train", "evaluate", "share_anchors", "describe_links"}
    assert {c.step for c in sized.leaving} == steps
    inner = audited("self-training", settings=[("method.inner", "fed-gala")])
    assert "share_anchors" in {c.step for c in inner.leaving}


def test_an_audit_of_a_run_counts_what_its_ledger_has(in_tmp):
    result = atoll.run(method="fed-avg", data="patients", clients=3, rounds=4, out="run")
    audit = audit_run(result.run_dir)
    assert (audit.clients, audit.rounds, audit.sums_suffice) == (3, 4, True)
    billed = [c.bytes for c in audit.leaving if c.step != "evaluate"]
    assert sum(billed) == result.bytes_up
    assert json.loads(json.dumps(audit.facts()))["method"] == "fed-avg"


def test_a_ledger_without_verbs_leaves_open_whether_sums_suffice(in_tmp):
    atoll.run(method="fed-avg", data="patients", clients=3, rounds=2, out="run")
    path = in_tmp / "run" / "ledger.parquet"
    polars.read_parquet(path).drop("verb").write_parquet(path)
    assert audit_run(in_tmp / "run").sums_suffice is None


def test_a_run_without_a_ledger_is_one_sentence(in_tmp):
    atoll.run(method="fed-avg", data="patients", clients=3, rounds=2, out="run")
    (in_tmp / "run" / "ledger.parquet").unlink()
    with pytest.raises(AtollError, match=r"has no ledger\.parquet"):
        audit_run(in_tmp / "run")


def test_crossings_of_different_sizes_are_a_range():
    row = {"step": "s", "direction": "up", "name": "rows/x", "dtype": "float32", "verb": "ask"}
    table = polars.DataFrame(
        [
            row | {"round": 1, "client": 0, "shape": "[3, 2]", "bytes": 24},
            row | {"round": 3, "client": 1, "shape": "[1, 2]", "bytes": 8},
        ]
    )
    [found] = crossings(table)
    assert found.shape == "[1, 2] to [3, 2]"
    assert (found.rounds, found.first_round, found.messages) == (2, 1, 2)
    assert (found.bytes_per_message, found.bytes_per_round, found.bytes) == (None, 16.0, 32)
