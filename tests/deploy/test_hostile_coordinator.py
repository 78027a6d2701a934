"""A coordinator that has its key and signs what it likes: what the site still holds it to."""

import shutil
from dataclasses import fields, replace

import pytest
import torch

from atoll.deploy.envelope import Label, opened, sealed
from atoll.deploy.keyring import renew_coordinator, roster_in
from atoll.deploy.plan import is_run_name
from atoll.deploy.policy.default import BUILT_IN, open_policy
from atoll.deploy.policy.judging import cheap_lines
from atoll.deploy.policy.rules import policy_of
from atoll.deploy.site import Site
from atoll.deploy.voice import sized, voice_of
from atoll.experiment.config import REGISTRIES, describe, resolve
from atoll.federation.calls import Call
from atoll.federation.codec import Request, decode_answer, step_request
from atoll.files import read_json
from atoll.methods.base import Info
from atoll.tree import prefixed
from small_federations import community_parties
from thread_fleet import deployed


def spoken(coordinator, site, label, request):
    """The answer to a request in an envelope that says what the coordinator likes."""
    door = coordinator.fleet.doors[site]
    reply = door.handle(
        sealed(coordinator.voice.key, "request", label, request.encode(), sized(b""))
    )
    return decode_answer(
        opened(bytes.fromhex(door.identity.roster.sites[site].signs), "answer", reply)[1]
    )


@pytest.fixture
def trained(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    coordinator.run()
    return coordinator, coordinator.plan.sites[0]


@pytest.mark.parametrize("what", ["ping", "run", "attempt", "id"])
def test_an_envelope_says_what_is_in_it(what, trained, tmp_path):
    """Attempts and repetitions are looked at on the envelope: another one inside got past them."""
    coordinator, victim = trained
    run, attempt = coordinator.plan.run, coordinator.fed.attempt
    inside = Request("step", run, 10**9, {"step": "train", "round": 2, "nth": 0, "kinds": []})
    label = {
        "ping": Label("", victim, 0, inside.id),
        "run": Label("another", victim, inside.attempt, inside.id),
        "attempt": Label(run, victim, attempt, inside.id),
        "id": Label(run, victim, attempt, "another"),
    }[what]
    if what == "id":
        inside = replace(inside, attempt=attempt)
    if what == "run":
        inside = replace(inside, attempt=1)
        label = label._replace(attempt=1)
    states = tmp_path / "state" / victim / run
    before = {p: p.read_bytes() for p in states.glob("round-*")}
    assert spoken(coordinator, victim, label, inside).error == "BadMessage"
    assert {p: p.read_bytes() for p in states.glob("round-*")} == before
    honest = Request("hello", run, attempt)
    assert not spoken(coordinator, victim, Label(run, victim, attempt, honest.id), honest).error


def test_what_is_in_no_run_is_a_ping(trained):
    """Nothing else may stay off the record."""
    coordinator, victim = trained
    for ask, error in (("hello", "BadMessage"), ("ping", "")):
        request = Request(ask)
        assert spoken(coordinator, victim, Label("", victim, 0, request.id), request).error == error


@pytest.mark.parametrize(
    "name",
    ["roster.signed", "sent.json", "evidence.key", ".at-work", "..", "a/b", "a\n", "a\u0000",
     "\u0430vg", "avg\u202e", "ａvg", "a" * 101, "", "1\u0661"],
)  # fmt: skip
def test_no_run_is_called_like_a_site_s_own_file_nor_what_looks_like_another(name):
    assert not is_run_name(name)
    assert is_run_name("fed-avg_7")


def test_a_run_does_not_keep_a_site_from_learning_a_roster(trained, tmp_path):
    """A folder of that name in the roster's place, made before the coordinator's key is revoked."""
    coordinator, victim = trained
    request = Request("hello", "roster.signed", 1)
    message = coordinator.voice.asks(victim, request)
    assert coordinator.fleet.doors[victim].handle(message) == b""
    renew_coordinator(tmp_path / "kits")
    new = voice_of(tmp_path / "kits" / "server")
    hello = Request("hello", coordinator.plan.run, coordinator.fed.attempt)
    assert coordinator.fleet.doors[victim].handle(new.asks(victim, hello))
    serial = roster_in(tmp_path / "kits" / "server")[0].serial
    assert coordinator.fleet.doors[victim].identity.roster.serial == serial


# Budgets.

NOISY = {"noise": 1.0, "clip": 1.0, "epsilon": 8.0}


class Budgeted:
    """A site, and a coordinator that wants more of it than a budget affords."""

    def __init__(self, tmp_path, policy):
        coordinator = deployed(
            tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=50, privacy=NOISY
        )
        party = next(iter(coordinator.fleet.sites.values()))
        self.coordinator, self.state = coordinator, tmp_path / "fresh"
        self.site = Site(party.data, self.state, policy=policy)
        self.experiment = {
            section: values
            for section, values in describe(coordinator.plan.experiment).items()
            if section not in ("data", "split", "partition")
        }

    def begin(self, run="run-1", client=0, **privacy):
        table = self.experiment | {"privacy": self.experiment["privacy"] | privacy}
        facts = {"experiment": table, "client": client}
        return decode_answer(self.site.handle(Request("begin", run, 1, facts).encode())).error

    def released(self, run="run-1", first=1):
        """How many rounds a site trains from one on before its budget is spent."""
        sizes = Info(3, self.site.graph().features, self.site.graph().classes, torch.float64)
        model = prefixed("model", self.coordinator.method.initial_model(sizes, 0))
        for r in range(first, 51):
            call = Call("train", r, 0, model, ("model",))
            answer = self.site.handle(step_request(call, {}, run, 1).encode())
            if decode_answer(answer).error:
                return r - first
        return 51 - first


@pytest.mark.parametrize("change", [{"client": 1}, {"noise": 1e3}, {"epsilon": 1e9}, {"clip": 0.1}])
def test_a_budget_can_not_be_begun_anew(change, tmp_path):
    """Another number as a client had a count of its own, and other noise other prices."""
    stage = Budgeted(tmp_path, open_policy())
    assert not stage.begin()
    assert stage.released() == resolve(stage.experiment).privacy.affordable == 2
    assert stage.begin(**change) == "Refused"
    assert stage.released(first=4) == 0
    assert not stage.begin()  # as a coordinator that was started again does


def test_a_site_s_runs_have_one_budget_together(tmp_path, caplog):
    required = replace(open_policy().required, epsilon_in_all=20.0)
    stage = Budgeted(tmp_path, replace(open_policy(), required=required))
    assert [stage.begin(run) for run in ("run-1", "run-2", "run-2", "run-3")] == [
        "",
        "",
        "",
        "Refused",
    ]
    assert "with run run-3 they could spend 24" in caplog.records[-1].getMessage()
    stage.site = Site(stage.site.data, stage.state, policy=stage.site.policy)  # restarted
    assert stage.begin("run-3") == "Refused"
    assert not stage.begin("run-2")
    assert stage.begin("run-4", noise=0.0, epsilon=0.0, clip=0.0) == "Refused"
    (stage.state / "promised.json").write_text("{")
    assert stage.begin("run-1") == "AtollError"


def test_a_run_whose_count_is_lost_is_promised_once_more(tmp_path):
    """Its people have removed the run's folder, and with it what the run has released."""
    required = replace(open_policy().required, epsilon_in_all=20.0)
    stage = Budgeted(tmp_path, replace(open_policy(), required=required))
    assert not stage.begin()
    for budget in (8.0, 1e3):
        shutil.rmtree(stage.state / "run-1")
        stage.site = Site(stage.site.data, stage.state, policy=stage.site.policy)
        assert stage.begin(epsilon=budget) == ("" if budget == 8.0 else "Refused")
    assert read_json(stage.state / "promised.json") == {"run-1": 16.0}
    assert not stage.released()  # what was refused has not begun


@pytest.mark.parametrize("rule", ["epsilon = 8.0", "epsilon_in_all = 8.0"])
@pytest.mark.parametrize(("delta", "refused"), [(0.9, True), (1e-5, False), (1e-6, False)])
def test_an_epsilon_is_worth_what_its_delta_is(rule, delta, refused, tmp_path):
    """At a delta of 0.9 a reply with hardly any noise costs next to nothing."""
    policy = policy_of(f"[required]\n{rule}", "mine", BUILT_IN)
    run = {"method": {"name": "fed-avg"}, "privacy": NOISY | {"delta": delta}}
    failing = [line.rule for line in cheap_lines(policy, resolve(run)) if line.passed is False]
    assert failing == (["required.delta"] if refused else [])


@pytest.mark.parametrize("name", ["scaffold", "gcfl"])
def test_noise_for_single_nodes_is_of_methods_that_it_covers(name, tmp_path):
    """Another method's replies would leave with no noise at all, under a budget that never ends."""
    stage = Budgeted(tmp_path, open_policy())
    stage.experiment["method"] = {"name": name}
    assert stage.begin(unit="node") == "Refused"
    stage.experiment["method"] = {"name": "fed-avg"}
    assert not stage.begin(unit="node")


def test_a_policy_that_was_changed_holds_for_runs_that_have_begun(tmp_path):
    """Its people have read of a method, changed the policy and started the site again."""
    stage = Budgeted(tmp_path, open_policy())
    assert not stage.begin()
    for admitted in ("fed-avg", "fed-prox"):
        policy = policy_of(
            f'[admitted]\nmethods = ["{admitted}"]\nexposes = []', "mine", open_policy()
        )
        stage.site = Site(stage.site.data, stage.state, policy=policy)
        assert stage.released() == (2 if admitted == "fed-avg" else 0)


@pytest.mark.parametrize(
    ("hidden", "asked", "refused"),
    [
        ("client", "client", False),
        ("client", "node", True),
        ("node", "node", False),
        ("node", "client", False),
    ],
)
def test_noise_hides_what_the_policy_says_it_must(hidden, asked, refused):
    """An epsilon for single nodes is a much weaker promise than the same for a whole site."""
    text = f'[required]\nepsilon = 8.0\nunit = "{hidden}"'
    policy = policy_of(text, "mine", BUILT_IN)
    run = {"method": {"name": "fed-avg"}, "privacy": NOISY | {"unit": asked}}
    failing = [line.rule for line in cheap_lines(policy, resolve(run)) if line.passed is False]
    assert failing == (["required.unit"] if refused else [])


# Sizes.


def unbounded():
    """Whole numbers of admitted models and tasks, which neither they nor the policy bound."""
    for section, names in (("model", BUILT_IN.admitted.models), ("task", BUILT_IN.admitted.tasks)):
        for name in names:
            for option in fields(REGISTRIES[section][0][name]):
                bounds = option.metadata.get("bounds", {})
                free = type(option.default) is int and not {"at_most", "below"} & set(bounds)
                if free and option.name not in BUILT_IN.ranges.get(section, {}):
                    yield f"{section}.{option.name}"


def test_the_built_in_policy_bounds_what_makes_a_model_large_or_slow():
    """A model of a thousand million hops kept a site busy for good while it was rehearsed."""
    # Batches and clusters are of the site's own nodes, and no more than these.
    assert set(unbounded()) <= {"task.batch", "task.clusters"}


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("model", {"name": "sgc", "hops": 10**9}),
        ("model", {"name": "appnp", "hops": 10**9}),
        ("model", {"name": "gat", "heads": 10**6}),
        ("model", {"name": "gin", "layers": 10**6}),
        ("task", {"name": "links", "dimensions": 10**8}),
    ],
)
def test_a_run_of_huge_size_is_refused_before_it_is_rehearsed(
    section, values, tmp_path, monkeypatch
):
    stage = Budgeted(tmp_path, BUILT_IN)
    monkeypatch.setattr("atoll.deploy.site.steps_of", lambda *given: pytest.fail("rehearsed"))
    stage.experiment |= {section: values}
    assert stage.begin() == "Refused"
