"""What a site does: only what its policy admits and its own rehearsal declares."""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from atoll.deploy.policy.declared import NotRehearsed, declared
from atoll.deploy.policy.default import BUILT_IN, TEXT, open_policy, policy_at
from atoll.deploy.policy.forms import forms_of
from atoll.deploy.policy.judging import Party, judged, passes
from atoll.deploy.policy.rules import Who, policy_of, read_policy
from atoll.deploy.site import Site
from atoll.errors import AtollError
from atoll.experiment.config import describe, resolve
from atoll.federation.calls import Call
from atoll.federation.codec import Request, decode_answer, step_request
from atoll.leaves import Ragged
from atoll.methods.base import methods
from atoll.methods.exposure import exposure
from plugin_files import sha256, trap
from small_federations import community_parties
from thread_fleet import deployed

ORDINARY = BUILT_IN.admitted.methods
EXPOSING = ["fed-gala", "ppfl-gat", "ppfl-deepwalk", "gfl-appnp"]
LARGE = Party(nodes=1000, labelled=100)


def parties():
    return community_parties((19, 25, 14))


def lines(name, policy=BUILT_IN, party=LARGE, **sections):
    experiment = resolve({"method": {"name": name}} | sections)
    steps = declared(experiment, 50, 5)
    return judged(policy, experiment, steps, 50, party)


def failing(*args, **kwargs):
    return {line.rule: line.why for line in lines(*args, **kwargs) if line.passed is False}


@pytest.mark.parametrize("name", ORDINARY)
def test_the_built_in_policy_admits_the_ordinary_methods(name):
    assert passes(lines(name))


@pytest.mark.parametrize("name", EXPOSING)
def test_it_refuses_those_that_expose_and_says_how_to_opt_in(name):
    found = failing(name)
    assert f"name '{name}' in methods and exposes of [admitted]" in found["admitted.exposes"]
    opted = policy_of(
        f'[admitted]\nmethods=["{name}"]\nexposes=["{name}"]\nmodels=["mlp","gcn","gat"]\n'
        '[leaving]\nkinds=["model","metric","embedding","public","jacobian","hidden"]\n'
        "rows_narrower_than_features = false",
        "opted",
        BUILT_IN,
    )
    assert failing(name, opted) == {}


def test_every_method_that_was_measured_above_the_limit_needs_a_word():
    """Links from what is sent of nodes, training nodes from models, features of nodes."""
    text = (Path(__file__).parents[2] / "docs" / "privacy-leaks.md").read_text()
    table = text.partition("<!-- leaks -->")[2].partition("<!-- /leaks -->")[0]
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in table.strip().splitlines()]
    looked = ("links by what is sent of nodes, server", "membership, server")
    columns = [rows[0].index(name) for name in (*looked, "features of nodes, server")]
    scores = {
        row[0]: [float(row[c].split()[0]) for c in columns if row[c] != "-"] for row in rows[2:]
    }
    above = {name for name, found in scores.items() if max(found, default=0.0) >= 0.65}
    assert {"fed-gala", "fed-gnn", "fed-gcn", "fed-mlp", "no-augment"} <= above
    assert not above & set(BUILT_IN.admitted.methods)
    assert {name for name in above if exposure(methods[name]()) is None} == set()


def test_a_method_that_wraps_an_exposing_one_exposes_as_much():
    inner = {"name": "self-training", "inner": {"name": "fed-gala"}}
    assert "fed-gala exposes" in failing("self-training", method=inner)["admitted.exposes"]


@pytest.mark.parametrize(
    ("rule", "sections"),
    [
        ("ranges.optimizer.lr", {"optimizer": {"name": "sgd", "lr": 100.0}}),
        ("ranges.method.epochs", {"method": {"name": "fed-avg", "epochs": 51}}),
        ("ranges.run.rounds", {"run": {"rounds": 1001}}),
        ("ranges.model.hidden", {"model": {"name": "gcn", "hidden": 513}}),
        ("admitted.models", {"model": {"name": "mlp"}}),
        ("admitted.methods", {"method": {"name": "fed-gcn"}}),
    ],
)
def test_what_lies_outside_is_refused_by_the_line_that_says_so(rule, sections):
    name = sections.get("method", {}).get("name", "fed-avg")
    assert rule in failing(name, **sections)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("leaving.kinds", '[leaving]\nkinds = ["metric"]'),
        ("leaving.bytes_per_round", "[leaving]\nbytes_per_round = 1000"),
        ("data.nodes", "[data]\nnodes = 1001"),
        ("data.labelled", "[data]\nlabelled = 101"),
        ("required.secure_sum", "[required]\nsecure_sum = true"),
        ("required.epsilon", "[required]\nepsilon = 8.0"),
        ("admitted.optimizers", '[admitted]\noptimizers = ["sgd"]'),
        ("admitted.tasks", '[admitted]\ntasks = ["links"]'),
    ],
)
def test_each_line_of_a_policy_can_refuse_fed_avg(rule, text):
    assert list(failing("fed-avg", policy_of(text, "mine", BUILT_IN))) == [rule]


def test_rows_that_stand_for_nodes_have_a_width():
    text = '[admitted]\nmethods=["{0}"]\nexposes=["{0}"]\n[leaving]\nkinds=["*"]'
    policy = policy_of(text.format("fed-gcn"), "mine", BUILT_IN)
    # Sums over neighbours are as wide as the features: 50 numbers are few enough, yet not fewer.
    assert list(failing("fed-gcn", policy)) == ["leaving.rows_narrower_than_features"]
    policy = policy_of(text.format("fed-gnn"), "mine", BUILT_IN)
    assert "rows of 128 numbers, more than 64" in failing("fed-gnn", policy)["leaving.row_width"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[admitted]\nmethods = ['fed-avgg']", "did you mean 'fed-avg'?"),
        ("[admitted]\nexposes = ['fed-gala']", "name it in both"),
        ("[admited]\nmethods = []", "did you mean 'admitted'?"),
        ("[leaving]\nbytes = 3", "leaving.bytes"),
        ("[leaving]\nbytes_per_round = -3", "at least 0"),
        ("[ranges.optimizer]\nlr = [1.0, 0.1]", "[low, high]"),
        ("[ranges.optimiser]\nlr = [1.0, 2.0]", "ranges.optimiser"),
        ("admitted = 3", "no section"),
        ("[data", "can't be read as TOML"),
        ("[admitted]\nmethods = 'fed-avg'", "admitted.methods"),
        ("[admitted]\nmodels = [1]", "admitted.models"),
        ("[code]\nadmit = './mine.py:Mine'", "code.admit"),
        ("[required]\nsecure_sum = 'yes'", "required.secure_sum"),
        ("[required]\nsecure_sum = 1", "required.secure_sum"),
        ("[required]\nepsilon = '8'", "required.epsilon"),
        ("[required]\nepsilon = nan", "required.epsilon"),
        ("[required]\nepsilon_in_all = nan", "required.epsilon_in_all"),
        ("[required]\nunit = 'nobody'", "required.unit"),
        ("[leaving]\nbytes_per_round = 1.5", "leaving.bytes_per_round"),
        ("[leaving]\nkinds = true", "leaving.kinds"),
        ("[data]\nnodes = true", "data.nodes"),
        ("[data]\nanchor_share = 2", "data.anchor_share"),
        ("[data]\nanchor_share = nan", "data.anchor_share"),
        ("[ranges.run]\nrounds = [nan, nan]", "[low, high]"),
        ("[ranges.run]\nrounds = ['1', 2]", "[low, high]"),
        ("[ranges.run]\nrounds = 3", "[low, high]"),
        ("[ranges]\nrun = 3", "ranges.run"),
        ("[who]\ncoordinators = 'all'", "who.coordinators"),
        ("[data]\nnodes = 1\nnodes = 2", "can't be read as TOML"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_in_one_sentence(tmp_path, text, said):
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(AtollError) as problem:
        policy_at(file)
    assert said in str(problem.value)


def test_what_a_file_leaves_out_is_as_in_the_built_in_policy(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text("[data]\nnodes = 7\n[ranges.optimizer]\nlr = [0.1, 0.2]\n")
    found = read_policy(file, BUILT_IN)
    assert (found.data.nodes, found.data.labelled) == (7, BUILT_IN.data.labelled)
    assert found.ranges["optimizer"] == {"lr": (0.1, 0.2), "weight_decay": (0.0, 0.1)}
    assert found.admitted == BUILT_IN.admitted
    assert policy_of(TEXT, BUILT_IN.name) == BUILT_IN


# A site and a hostile server.


@pytest.fixture
def stage(tmp_path, caplog):
    """A site that has begun a run, and what a server gets and the site's operator sees."""
    return Stage(tmp_path, caplog)


class Stage:
    def __init__(self, tmp_path, caplog):
        self.tmp_path, self.caplog = tmp_path, caplog

    def begin(self, method, policy=None, rounds=4, anchors=None, **more):
        self.coordinator = deployed(self.tmp_path, parties(), method, rounds=rounds)
        party = next(iter(self.coordinator.fleet.sites.values()))
        self.site = Site(party.data, self.tmp_path / "fresh", policy=policy or open_policy())
        table = describe(self.coordinator.plan.experiment) | more
        public = {k: v for k, v in table.items() if k not in ("data", "split", "partition")}
        self.facts = {"experiment": public, "client": 0}
        if anchors is not None:
            assert not self.ask("propose", self.facts).error
            self.facts["anchors"] = len(anchors)
            self.site._durable("run-1").keep_facts("anchors", {"rows": anchors})
        return self.ask("begin", self.facts)

    def ask(self, ask, facts, tree=None, attempt=1):
        with self.caplog.at_level(logging.ERROR):
            request = Request(ask, "run-1", attempt, facts, tree or {})
            return decode_answer(self.site.handle(request.encode()))

    def step(self, step, round=1, nth=0, shared=None, each=None, attempt=1):
        shared = self.model() if shared is None else shared
        kinds = tuple({name.split("/")[0]: 0 for name in (*shared, *(each or {}))})
        request = step_request(Call(step, round, nth, shared, kinds), each or {}, "run-1", attempt)
        with self.caplog.at_level(logging.ERROR):
            return decode_answer(self.site.handle(request.encode()))

    def model(self, scale=1.0):
        method = self.coordinator.plan.experiment.method
        graph = self.site.graph()
        one = method.initial_model(
            type(
                "Sizes",
                (),
                {"features": graph.features, "classes": graph.classes, "dtype": torch.float64},
            ),
            0,
        )
        return {f"model/{name}": scale * value for name, value in one.items()}

    @property
    def said(self):
        return self.caplog.records[-1].getMessage()


def test_declared_steps_are_performed(stage):
    assert not stage.begin("fed-avg").error
    for r in (1, 2, 3, 4):
        assert stage.step("train", r).tree
        assert stage.step("evaluate", r, shared={}).tree


def test_a_step_that_is_not_declared_is_refused(stage):
    stage.begin("fed-avg")
    # A client step of the class, which this setting never takes.
    answer = stage.step("sizes", shared={})
    assert (answer.error, answer.tree, answer.facts) == ("Refused", {}, {})
    assert "'sizes' of round 1 is no step that the method takes" in stage.said


def test_a_step_twice_in_a_round_is_refused(stage):
    stage.begin("fed-avg")
    assert stage.step("train").tree
    assert stage.step("train", nth=1).error == "Refused"
    assert "comes after ['train'], which is not its order" in stage.said
    assert stage.step("evaluate", shared={}).tree
    assert stage.step("train", 1).error == "Refused"


def test_rounds_beyond_the_run_are_refused(stage):
    stage.begin("fed-avg", rounds=4)
    assert stage.step("train", 5).error == "Refused"
    assert "beyond the run's 4 rounds" in stage.said
    assert stage.step("train", 0).error == "Refused"


@pytest.mark.parametrize("change", ["wider", "renamed", "other type", "extra", "missing", "each"])
def test_another_shape_than_declared_is_refused(stage, change):
    stage.begin("fed-avg")
    sent = stage.model()
    name, value = next(iter(sent.items()))
    if change == "wider":
        sent[name] = torch.cat([value, value])
    elif change == "renamed":
        sent["model/other"] = sent.pop(name)
    elif change == "other type":
        sent[name] = value.float()
    elif change == "extra":
        sent["model/extra"] = torch.zeros(2, dtype=torch.float64)
    elif change == "missing":
        del sent[name]
    each = {name: sent.pop(name)[None]} if change == "each" else None
    answer = stage.step("train", shared=sent, each=each)
    assert (answer.error, answer.tree) == ("Refused", {})
    assert "is not as the method declares it" in stage.said


def test_a_round_can_not_be_repeated_with_other_models_without_end(stage):
    stage.begin("fed-avg", replace(open_policy(), leaving=BUILT_IN.leaving))
    for attempt in range(1, 40):  # the same request again gives the same answer, however often
        assert not stage.step("train", attempt=attempt).error
    answers = [stage.step("train", shared=stage.model(s), attempt=100 + s) for s in range(2, 14)]
    assert [a.error for a in answers] == [""] * 10 + ["Refused"] * 2
    assert "leaving.repeats" in stage.said


def test_a_server_does_not_lead_a_site_back_round_by_round(stage):
    stage.begin("fed-avg", rounds=10)
    for r in range(1, 9):
        assert stage.step("train", r).tree
    assert stage.step("train", 5, attempt=2).tree
    assert stage.step("train", 4, attempt=3).error == "Refused"  # one round back, four in all
    assert "is asked for after round 8" in stage.said


def test_bytes_are_counted_per_round_over_its_attempts(stage):
    size = 8 * sum(v.numel() for v in parameters()) + 8
    limits = replace(open_policy().leaving, bytes_per_round=2 * size - 1)
    assert not stage.begin("fed-avg", replace(open_policy(), leaving=limits)).error
    assert not stage.step("train").error
    answer = stage.step("train", shared=stage.model(2.0), attempt=2)
    assert (answer.error, answer.tree) == ("Refused", {})
    assert "leaving.bytes_per_round" in stage.said
    assert not stage.step("train", 2, attempt=2).error


def test_a_new_run_does_not_make_a_site_forget_what_it_sent(stage):
    size = 8 * sum(v.numel() for v in parameters()) + 8
    limits = replace(open_policy().leaving, bytes_in_all=2 * size)
    policy = replace(open_policy(), leaving=limits)
    stage.begin("fed-avg", policy)
    for r in (1, 2):
        assert not stage.step("train", r).error
    assert stage.step("train", 3).error == "Refused"
    site = Site(stage.site.data, stage.site.state, policy=policy)  # restarted
    begun = Request("begin", "run-2", 1, stage.facts).encode()
    assert not decode_answer(site.handle(begun)).error
    call = Call("train", 1, 0, stage.model(), ("model",))
    answer = decode_answer(site.handle(step_request(call, {}, "run-2", 1).encode()))
    assert answer.error == "Refused"
    assert "bytes leave this site in all its runs" in stage.caplog.records[-1].getMessage()


def parameters():
    """Of the model that runs in these tests have."""
    method = resolve({"model": {"name": "gcn", "hidden": 8}, "method": {"name": "fed-avg"}}).method
    graph = parties()[0]
    return method.model.init(graph.features, graph.classes, np.random.default_rng(0)).values()


def test_a_restarted_site_remembers_which_steps_it_has_taken(stage):
    stage.begin("fed-avg")
    assert stage.step("train").tree
    stage.site = Site(stage.site.data, stage.site.state, policy=stage.site.policy)
    assert stage.step("train", nth=1).error == "Refused"
    assert stage.step("evaluate", shared={}).tree


def test_what_comes_once_in_a_run_does_not_come_twice(stage):
    stage.begin("fed-gala", anchors=[0, 1, 2])
    assert stage.step("share_anchors", 1, shared={}).tree
    assert stage.step("share_anchors", 2, shared={}).error == "Refused"
    assert "taken in one round of a run" in stage.said


def test_a_server_that_declares_all_nodes_anchors_and_sends_identity_weights_gets_nothing(stage):
    """With all nodes as anchors and weights that change nothing it would read the features."""
    nodes = parties()[0].nodes
    text = (
        '[admitted]\nmethods=["fed-gala"]\nexposes=["fed-gala"]\n[data]\nnodes=1\nlabelled=1\n'
        '[leaving]\nkinds=["model","metric","embedding"]'
    )
    policy = policy_of(text, "mine", BUILT_IN)
    features = parties()[0].features
    wide = {"model": {"name": "gcn", "hidden": features, "head": "graph"}}
    answer = stage.begin("fed-gala", policy, anchors=list(range(nodes)), **wide)
    assert answer.error == "Refused"
    assert "100% of the nodes are anchors, more than 50%" in stage.said
    for step in ("train", "share_anchors", "evaluate"):
        answer = stage.step(step, shared={})
        assert answer.error
        assert answer.tree == {}


def test_weights_of_another_width_than_the_run_has_are_refused(stage):
    """So a matrix that copies features into the representation has nowhere to go."""
    stage.begin("fed-gala", anchors=[0, 1])
    features = parties()[0].features
    sent = stage.model() | {"model/conv1.weight": torch.eye(features, dtype=torch.float64)}
    assert stage.step("train", shared=sent).error == "Refused"
    assert stage.step("share_anchors", shared={"model/conv1.weight": torch.eye(3)}).error


def test_nothing_is_matched_for_a_run_that_was_not_proposed_or_has_no_use_for_it(stage):
    stage.begin("fed-avg")
    for turn in ("lists", "raise", "compare"):
        answer = stage.ask("match", {"turn": turn, "peers": ["party-1"]})
        assert (answer.error, answer.tree) == ("Refused", {})
    assert "which has no use for them" in stage.said


def test_a_module_of_a_hostile_server_is_not_imported(stage, tmp_path, monkeypatch):
    file, mark = trap(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    stage.begin("fed-avg")
    for factory in ("evil:Evil", "evil.py:Evil", f"{file}:Evil"):
        model = {"name": "module", "factory": factory, "sha256": sha256(file)}
        facts = {"experiment": stage.facts["experiment"] | {"model": model}, "client": 0}
        for ask in ("propose", "begin"):
            assert stage.ask(ask, facts).error == "PluginNotAdmitted"
    assert not mark.exists()


@pytest.mark.parametrize("name", EXPOSING)
def test_a_site_without_a_policy_file_refuses_a_method_that_exposes(stage, name):
    assert stage.begin(name, BUILT_IN).error == "Refused"
    assert "name '" in stage.said
    assert stage.step("train", shared={}).tree == {}


def test_a_site_with_little_data_does_not_take_part(stage):
    assert stage.begin("fed-avg", BUILT_IN).error == "Refused"
    assert "19 nodes, fewer than 100" in stage.said


def test_only_named_coordinators_may_ask(tmp_path, stage):
    stage.begin("fed-avg")
    [identity, *_] = [site.identity for site in stage.coordinator.fleet.sites.values()]
    hello = Request("hello", "run-1").encode()
    true, another = (hashlib.sha256(key).hexdigest() for key in (identity.coordinator, b"another"))
    for named, spoken_by, error in (
        (true, identity, ""),
        (another, identity, "Refused"),
        (true, None, "Refused"),  # nobody has signed
    ):
        policy = replace(open_policy(), who=Who(coordinators=(named,)))
        site = Site(stage.site.data, tmp_path / "s", identity=spoken_by, policy=policy)
        assert decode_answer(site.handle(hello)).error == error


def test_the_coordinator_learns_that_sites_refused_and_stops_at_once(tmp_path):
    policy = policy_of("[data]\nnodes = 471100815", "mine", BUILT_IN)
    coordinator = deployed(tmp_path, parties(), "fed-avg", policy=policy, terms={"patience": 60.0})
    with pytest.raises(
        AtollError,
        match="refuse the run by their policies",
    ):
        coordinator.run()
    assert b"471100815" not in b"".join(coordinator.fleet.transcript)


def test_every_method_that_can_be_deployed_is_rehearsed_at_a_site():
    """The steps that a method's own trial performs are the ones that are declared."""
    for name in ("fed-sage-plus", "fed-gcn", "fed-gnn"):
        steps = declared(resolve({"method": {"name": name}}), 12, 3)
        assert "train" in steps.steps
        assert "train" not in steps.seldom
        assert all(step in steps.steps for sequence in steps.sequences for step in sequence)
    assert steps.seldom == {"embed": 10}
    assert methods["fed-gnn"](every=3).recurring == {"embed": 3}


def test_lengths_that_depend_on_a_party_are_free_and_others_are_not():
    steps = declared(resolve({"method": {"name": "fed-gala"}}), 12, 3)
    [share] = [e for e in steps.exchanges if e.step == "share_anchors"]
    [part] = share.leaving["embedding/anchors"]
    assert (part.shape, part.ragged) == ((-1, 3), True)
    assert not steps.misreply("share_anchors", forms("body/embedding/anchors", 7, 3))
    assert steps.misreply("share_anchors", forms("body/embedding/anchors", 7, 4))


def test_a_run_that_names_a_class_is_rehearsed_with_the_names_of_the_data():
    experiment = resolve({"method": {"name": "fed-avg"}, "task": {"positive": "fraud"}})
    steps = declared(experiment, 12, 2, ("honest", "fraud"))
    assert steps.sequences == (("train", "evaluate"),)
    with pytest.raises(NotRehearsed, match="'fraud', which is no class"):
        declared(experiment, 12, 2)


def test_collections_of_small_graphs_are_rehearsed_as_such():
    chosen = {"method": {"name": "gcfl"}, "task": {"name": "graphs"}, "model": {"name": "gin"}}
    experiment = resolve(chosen)
    steps = declared(experiment, 6, 2, collection=True)
    assert steps.sequences == (("train", "evaluate"),)
    assert passes(judged(BUILT_IN, experiment, steps, 6, LARGE))


def forms(name, rows, width):
    return forms_of({name: Ragged.of([torch.zeros(rows, width)])})
