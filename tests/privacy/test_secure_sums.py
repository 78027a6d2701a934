"""Secure sums in a federation: the same results, dropouts, refusals, what the server sees."""

import json

import pytest
import torch

from atoll.errors import AtollError, NoReplies
from atoll.experiment.audit import audit_run
from atoll.experiment.config import resolve
from atoll.experiment.parties import load_parties, simulate
from atoll.experiment.runner import run_experiment
from atoll.federation.validation import Batch
from atoll.privacy.door import Unmasked
from atoll.privacy.secure.masking import AGREE, KEYS, SHARES, UNMASK
from atoll.tree import flat, take

CLIENTS = 6


def experiment(method="fed-avg", clients=CLIENTS, rounds=3, **privacy):
    return resolve(
        {
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": clients},
            "model": {"hidden": 8},
            "method": {"name": method} if isinstance(method, str) else method,
            "run": {"rounds": rounds, "dtype": "float64"},
            "privacy": privacy,
        }
    )


def federation(chosen, silent=None):
    """A simulation in which ``silent[step]`` do not answer."""
    fed, state = simulate(chosen, load_parties(chosen))
    whole, silent = fed.deliver, silent or {}

    def deliver(call, to, each):
        for batch in whole(call, to, each):
            stay = [i for i, c in enumerate(batch.clients) if c not in silent.get(call.step, ())]
            clients = tuple(batch.clients[i] for i in stay)
            weight = None if batch.weight is None else batch.weight[stay]
            yield Batch(clients, take(batch.body, stay), weight)

    fed.deliver = deliver
    fed.begin(1)
    return fed, state


def model_after(chosen, silent=None):
    fed, state = federation(chosen, silent)
    return flat({"model": chosen.method.round(fed, state, 1)["model"]}), fed


def assert_same(found, expected, tolerance=1e-9):
    for name, leaf in expected.items():
        assert torch.allclose(found[name], leaf, rtol=0, atol=tolerance), name


@pytest.mark.parametrize("name", ["fed-avg", "fed-prox", "scaffold", "fed-per", "fed-nova", "moon"])
def test_a_run_gives_the_same_result(name, tmp_path):
    plain = run_experiment(experiment(name), tmp_path / "plain")
    secure = run_experiment(experiment(name, secure_sum=True), tmp_path / "secure")
    assert_same(secure.parameters, plain.parameters, 1e-6)
    assert secure.test_accuracy == plain.test_accuracy
    assert secure.rejected_replies == 0


@pytest.mark.parametrize("step", [KEYS, SHARES, "train", AGREE, UNMASK])
def test_as_many_dropouts_as_the_threshold_allows_are_made_up_for(step):
    """Of six, five must stay; of those who sent keys."""
    chosen = experiment(secure_sum=True, threshold=0.67)
    found, _ = model_after(chosen, {step: {2}})
    # Who falls silent at the last turns has sent its numbers.
    left_out = {} if step in (AGREE, UNMASK) else {"train": {2}}
    expected, _ = model_after(experiment(), left_out)
    assert_same(found, expected)


@pytest.mark.parametrize("step", [SHARES, "train", AGREE, UNMASK])
def test_one_dropout_more_and_the_sum_is_given_up(step):
    chosen = experiment(secure_sum=True, threshold=0.67)
    with pytest.raises(NoReplies, match=r"given up: 4 clients sent .* takes 5"):
        model_after(chosen, {step: {2, 3}})


def test_a_given_up_sum_changes_nothing_and_the_next_round_is_sound(tmp_path):
    chosen = experiment(secure_sum=True)
    fed, state = federation(chosen, {"train": {0, 1, 2}})
    with pytest.raises(NoReplies):
        chosen.method.round(fed, state, 1)
    del fed.deliver
    fed.begin(2)
    assert chosen.method.round(fed, state, 2)["model"].keys() == state["model"].keys()


def test_the_server_sees_masked_numbers_and_keys_alone(tmp_path):
    run_experiment(experiment(secure_sum=True), tmp_path / "run")
    audit = audit_run(tmp_path / "run")
    content = {(c.step, c.name, c.each) for c in audit.leaving if c.use == "content"}
    assert content == {("train", "secure/masked", False)}
    assert audit.sums_suffice
    assert {c.name for c in audit.leaving if c.use == "weight"} == set()


def test_a_hostile_server_gets_nothing_in_the_clear():
    """It asks for the same step without the sum; the client's door stays shut."""
    chosen = experiment(secure_sum=True)
    fed, state = federation(chosen)
    fed.averaging = None
    with pytest.raises(Unmasked, match="'train' would send"):
        chosen.method.round(fed, state, 1)


@pytest.mark.parametrize(
    ("method", "kind"), [("fed-pub", "model"), ("gcfl", "model"), ("fed-gala", "embedding")]
)
def test_methods_that_need_single_replies_are_refused_with_the_reason(method, kind, tmp_path):
    with pytest.raises(AtollError, match=f"{method} can't do with .* needs the {kind} of every"):
        run_experiment(experiment(method, secure_sum=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_step_that_was_not_foreseen_is_refused_when_it_comes():
    chosen = experiment("fed-pub", secure_sum=True)
    fed, state = federation(chosen)
    with pytest.raises(AtollError, match="shows the server the model of every client"):
        chosen.method.round(fed, state, 1)


def test_a_sum_of_one_is_refused():
    chosen = experiment({"name": "fed-avg", "fraction": 0.1}, secure_sum=True)
    fed, state = federation(chosen)
    with pytest.raises(NoReplies, match="two clients or more"):
        chosen.method.round(fed, state, 1)


def test_a_client_that_has_not_signed_its_keys_is_left_out_by_name():
    """Else one hostile client could make all others refuse every sum."""
    chosen = experiment(secure_sum=True)
    fed, state = federation(chosen)
    whole = fed.deliver

    def deliver(call, to, each):
        for batch in whole(call, to, each):
            if call.step == KEYS:
                batch.body["secure/signature"][2] ^= 1
            yield batch

    fed.deliver = deliver
    found = flat({"model": chosen.method.round(fed, state, 1)["model"]})
    expected, _ = model_after(experiment(), {"train": {2}})
    assert_same(found, expected)
    assert [(r.client, r.reason) for r in fed.rejections] == [
        (2, "it has not signed its keys of a sum")
    ]


def test_a_client_whose_numbers_no_sum_can_hold_sits_out():
    def spoiled(fed):
        host, perform = fed.host, fed.host.method.method.perform

        class Spoiling:
            private = frozenset()

            def perform(self, call, row, cohort, state, rng):
                state, batch = perform(call, row, cohort, state, rng)
                if call.step == "train":
                    batch.body["model/conv1.weight"][1] = float("nan")
                return state, batch

        host.method.method = Spoiling()
        return fed

    chosen = experiment(secure_sum=True)
    fed, state = federation(chosen)
    found = flat({"model": chosen.method.round(spoiled(fed), state, 1)["model"]})
    expected, _ = model_after(experiment(), {"train": {1}})
    assert_same(found, expected)


def test_noise_on_the_sum_is_there_once(tmp_path):
    """Of six clients five must stay: each adds a fifth of the variance."""
    chosen = experiment(secure_sum=True, noise=2.0, clip=1e-6, noise_at="sum")
    fed, state = federation(chosen)
    before = flat(state)
    after = flat(chosen.method.round(fed, state, 1))
    moved = torch.cat([(after[n] - before[n]).flatten() for n in after])
    once, shares = 2.0 * 1e-6 / CLIENTS, (CLIENTS / 5) ** 0.5
    assert float(moved.std()) == pytest.approx(once * shares, rel=0.2)
    assert fed.releases == dict.fromkeys(range(CLIENTS), 1)


def test_epsilon_is_on_record_under_secure_sums_too(tmp_path):
    chosen = experiment(secure_sum=True, noise=2.0, clip=1.0, noise_at="sum")
    run_experiment(chosen, tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    plain = run_experiment(experiment(noise=2.0, clip=1.0), tmp_path / "plain")
    assert summary["figures"]["epsilon"] == plain.figures["epsilon"]
