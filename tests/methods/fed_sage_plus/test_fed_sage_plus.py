import numpy as np
import pytest
import torch
from support import assert_same, engine, make, train, values

from atoll.archive import pack, unpack
from atoll.errors import AtollError
from atoll.federation.validation import without
from atoll.graph import dense
from atoll.leaves import Ragged
from atoll.methods.base import Info
from atoll.methods.client import Client
from atoll.methods.fed_sage_plus import FedSagePlus, mending, on_mended
from atoll.methods.fed_sage_plus import method as method_module
from atoll.methods.fed_sage_plus.losses import class_loss, degree_loss, feature_loss
from atoll.methods.fed_sage_plus.mending import impair
from atoll.methods.fed_sage_plus.neighbour_generator import NeighbourGenerator
from atoll.methods.fed_sage_plus.proposals import keep, kept
from atoll.models.sage import SAGE
from atoll.optimizers.sgd import SGD
from atoll.rng import CohortRng
from atoll.tasks.links import LinkPrediction
from atoll.tree import flat, nested, under
from small_federations import community_parties

QUICK = {"latent": 8, "local_steps": 3, "exchanges": 2, "hide": 0.3}


def federation(method, parties, rounds=1):
    outcome = train(method, parties, rounds=rounds)
    return outcome.fed, outcome


def plain_gradient(method, parties, quota):
    """The gradient of the whole loss with all clients' nodes in one place, ``L^x`` by loops."""
    fed, _ = engine(method, parties, None, 0, 0, False)
    cohort = fed.host.cohort
    p = {n: t.clone().requires_grad_() for n, t in under(fed.host.state, "generator").items()}
    coins = CohortRng(0, cohort.clients, 1, "exchange 0")
    impaired = impair(cohort, method.hide, coins)
    output = method.generator.generate(p, impaired.cohort, coins)
    made = output.generated
    logits = method.generator.classify(p, impaired, made, impaired.cohort.targets("train"))
    x = [torch.from_numpy(dense(g.x)).double() for g in parties]
    loss = (
        method.degree_weight * degree_loss(output, impaired)
        + method.feature_weight * feature_loss(output, impaired)
        + method.class_weight * class_loss(logits, impaired.cohort)
    ).sum()
    for i, block in enumerate(torch.split(made.rows, list(made.sizes))):
        chosen = np.sort(coins.streams[i].permutation(len(block))[:quota])
        far = sum(
            min(((block[p_] - x_u) ** 2).sum() for x_u in x[j])
            for p_ in chosen.tolist()
            for j in range(len(parties))
            if j != i
        )
        scale = len(block) / len(chosen) / impaired.cohort.graphs[i].nodes
        loss = loss + method.feature_weight * method.cross * scale * far
    grads = torch.autograd.grad(loss, list(p.values()))
    return dict(zip(p, grads, strict=True)), {n: t.detach() for n, t in p.items()}


@pytest.mark.parametrize("sample", [10_000, 24])
@pytest.mark.parametrize("wire", [False, True])
def test_what_clients_learn_from_replies_is_the_gradient_of_the_whole_loss(sample, wire):
    """One exchange with plain gradient descent moves by exactly that gradient."""
    parties = community_parties((12, 9, 15, 10))
    method = make(
        "fed-sage-plus",
        optimizer=SGD(lr=0.5),
        latent=6,
        local_steps=0,
        exchanges=1,
        sample=sample,
        cross=0.7,
        degree_weight=1.3,
        feature_weight=0.4,
        class_weight=0.9,
    )
    gradient, before = plain_gradient(method, parties, sample // 4)
    after = under(train(method, parties, rounds=1, wire=wire).clients, "generator")
    assert any(g.abs().max() > 1e-3 for g in gradient.values())
    for name, g in gradient.items():
        torch.testing.assert_close(
            (before[name] - after[name]) / 0.5, g, rtol=1e-10, atol=1e-10, msg=name
        )


def test_without_generated_neighbours_it_is_fed_sage(monkeypatch):
    original = NeighbourGenerator.init

    def childless(self, features, classes, rng):
        params = original(self, features, classes, rng)
        return params | {"degree.bias": torch.full((1,), -100.0, dtype=torch.float64)}

    monkeypatch.setattr(NeighbourGenerator, "init", childless)
    parties = community_parties()
    plus, sage = train(make("fed-sage-plus", **QUICK), parties), train(make("fed-sage"), parties)
    assert plus.clients["mended/counts"].values.sum() == 0
    for name, leaf in sage.clients.items():
        assert torch.equal(leaf, plus.clients[name])
    assert torch.equal(sage.replies.body["metric/loss"], plus.replies.body["metric/loss"])


def test_the_number_of_missing_neighbours_is_learned():
    parties = community_parties((60, 50, 55))

    def miss(local_steps):
        method = make("fed-sage-plus", local_steps=local_steps, exchanges=0, latent=16, hide=0.3)
        fed, outcome = federation(method, parties)
        rng = CohortRng(0, fed.clients, 1, "look")
        impaired = impair(fed.host.cohort, 0.3, rng)
        params_K = under(outcome.clients, "generator")
        output = method.generator.generate(params_K, impaired.cohort, rng, training=False)
        return degree_loss(output, impaired).mean(), feature_loss(output, impaired).mean()

    untrained, trained = miss(0), miss(60)
    assert trained[0] < 0.5 * untrained[0]


def test_exchanges_bring_rows_nearer_to_the_others_nodes():
    parties = community_parties((30, 25, 35))

    def distance(cross):
        method = make("fed-sage-plus", local_steps=5, exchanges=25, latent=16, cross=cross)
        rows = train(method, parties, rounds=1).clients["mended/rows"].blocks()
        total = [
            (block[:, None] - torch.from_numpy(dense(g.x))).square().sum(2).min(1).values.mean()
            for i, block in enumerate(rows)
            for j, g in enumerate(parties)
            if i != j and len(block)
        ]
        return float(torch.stack(total).mean())

    assert distance(1.0) < distance(0.0)


def test_only_original_nodes_are_scored():
    parties = community_parties()
    outcome = train(make("fed-sage-plus", **QUICK), parties)
    assert outcome.clients["mended/counts"].values.sum() > 0
    for row, g in zip(outcome.replies.body["metric/nodes"].tolist(), parties, strict=True):
        assert row == [g.train.sum(), g.val.sum(), g.test.sum()]


def test_links_are_predicted_between_original_nodes():
    task = LinkPrediction(dimensions=6)
    parties = [task.prepare(g, np.random.default_rng(0)) for g in community_parties()]
    outcome = train(make("fed-sage-plus", **QUICK, task=task), parties, rounds=30)
    assert outcome.clients["mended/counts"].values.sum() > 0
    pairs = [[p.shape[1] + n.shape[1] for p, n in g.probes] for g in parties]
    assert outcome.replies.body["metric/nodes"].tolist() == pairs
    assert outcome.replies.body["metric/auc"][:, 0].mean() > 0.7


def test_a_graph_is_mended_once_and_scores_come_from_the_mended_one():
    parties = community_parties()
    method = make("fed-sage-plus", **QUICK)
    outcome = train(method, parties, rounds=2)
    steps = [(e.round, e.step) for e in outcome.fed.ledger.entries]
    assert {r for r, step in steps if step in ("propose", "compare", "learn")} == {1}
    counts, rows = outcome.clients["mended/counts"], outcome.clients["mended/rows"]
    cohort = outcome.fed.host.cohort
    mended = cohort.with_inputs(mending.Mended(cohort, counts, rows))
    expected = method.task.scores(method.model, under(outcome.clients, "model"), mended)
    assert torch.equal(outcome.replies.body["metric/loss"], expected["loss"])


def test_results_are_the_same_whether_the_mended_graph_is_kept_or_made_anew(monkeypatch):
    parties = community_parties()
    kept = train(make("fed-sage-plus", **QUICK), parties, rounds=4)

    def forgetful(cohort, counts, rows):
        return mending.mend(cohort.relabelled(cohort.graphs), counts, rows)

    monkeypatch.setattr(on_mended, "mend", forgetful)
    assert_same(kept, train(make("fed-sage-plus", **QUICK), parties, rounds=4), 0.0)


def test_a_new_host_goes_on_from_the_stored_state():
    """What a checkpoint holds is enough: other hosts, other caches, the same result."""
    parties = community_parties()
    method = make("fed-sage-plus", **QUICK)
    straight = train(method, parties, rounds=4)
    first = train(method, parties, rounds=2)
    fed, [host] = engine(method, community_parties(), None, 0, 0, False)
    host.state, _ = unpack(pack(first.clients, {}))
    server = nested(unpack(pack(first.server, {}))[0])
    for r in (3, 4):
        fed.begin(r)
        server = method.round(fed, server, r)
        method.measure(fed, server)
    for name, leaf in straight.clients.items():
        assert torch.equal(values(leaf), values(host.state[name])), name
    last = flat(server)
    assert all(torch.equal(values(leaf), values(last[n])) for n, leaf in straight.server.items())


@pytest.mark.parametrize("keeps", [True, False])
def test_a_site_that_forgets_its_proposal_learns_the_same_from_the_answers(monkeypatch, keeps):
    """Between the two it may have been restarted."""
    parties, found = community_parties(), []
    expected = train(make("fed-sage-plus", **QUICK), parties, rounds=1)

    def looked_for(client, turn):
        found.append(kept(client, turn))
        return found[-1] if keeps else None

    monkeypatch.setattr(method_module, "kept", looked_for)
    assert_same(expected, train(make("fed-sage-plus", **QUICK), parties, rounds=1), 0.0)
    assert len(found) == QUICK["exchanges"]
    assert None not in found


def test_what_was_kept_is_for_the_same_generators_in_the_same_turn_and_for_one_step():
    method = make("fed-sage-plus", **QUICK)
    _, [host] = engine(method, community_parties(), None, 0, 0, False)

    def client(round=1):
        rng = CohortRng(0, host.cohort.clients, round, "propose#0")
        return Client(method, host.cohort, rng, nested(host.state))

    first, second = ({"number": torch.tensor([n]), "quota": torch.tensor([4])} for n in (0, 1))
    proposal = method.proposal(client(), first)
    keep(proposal, client(), first)
    assert kept(client(), first) is proposal
    assert kept(client(), first) is None
    for later, turn in ((client(round=2), first), (client(), second)):
        keep(proposal, client(), first)
        assert kept(later, turn) is None
    keep(proposal, client(), first)
    method.improve(client(), lambda p: sum(w.flatten(1).sum(1) for w in p.values()), 1)
    assert kept(client(), first) is None


def test_with_two_clients_nothing_is_exchanged(caplog):
    """The gradient from one other client would be its node's features."""
    outcome = train(make("fed-sage-plus", **QUICK), community_parties((20, 25)))
    assert "compare" not in {e.step for e in outcome.fed.ledger.entries}
    assert "leaves out the exchanges" in caplog.text


def test_a_client_gets_sums_of_gradients_and_nobody_gets_features():
    outcome = train(make("fed-sage-plus", **QUICK), community_parties())
    table = outcome.fed.ledger.table()
    up = set(table.filter(direction="up")["name"])
    assert {n for n in up if not n.startswith(("model/", "metric/"))} == {
        "rows/made",
        "gradient/made",
        "weight",
    }
    down = table.filter(step="learn", direction="down", name="gradient/made")
    made = table.filter(step="propose", direction="up", name="rows/made")
    assert down["shape"].to_list() == made["shape"].to_list()


def listen(fed, step, change):
    original = fed.deliver

    def deliver(call, to, each):
        for batch in original(call, to, each):
            yield change(batch) if call.step == step else batch

    fed.deliver = deliver


def round_one(method, parties, step, change):
    fed, _ = engine(method, parties, None, 0, 0, False)
    listen(fed, step, change)
    info = Info(len(parties), parties[0].features, parties[0].classes, torch.float64)
    fed.begin(1)
    return fed, method.round(fed, method.start(info, 0), 1)


def test_a_client_that_proposes_too_much_is_left_out():
    parties = community_parties((12, 12, 12, 12))
    method = make("fed-sage-plus", **QUICK, sample=8)

    def greedy(batch):
        made = batch.body["rows/made"]
        blocks = list(made.blocks())
        blocks[2] = torch.cat([blocks[2]] * 5)
        sizes = tuple(len(b) for b in blocks)
        batch.body["rows/made"] = Ragged(torch.cat(blocks), sizes)
        return batch

    fed, _ = round_one(method, parties, "propose", greedy)
    assert {(r.step, r.client) for r in fed.rejections} == {("propose", 2)}
    learned = fed.ledger.table().filter(step="learn", name="gradient/made")
    assert set(learned["client"]) == {0, 1, 3}


def test_a_silent_client_is_done_without():
    parties = community_parties()
    fed, server = round_one(
        make("fed-sage-plus", **QUICK),
        parties,
        "propose",
        lambda batch: without(batch, [1]),
    )
    learned = fed.ledger.table().filter(step="learn", name="gradient/made")
    assert set(learned["client"]) == {0, 2, 3, 4, 5}
    assert bool(server["mending"]["done"])
    assert fed.host.state["mended/counts"].values.sum() > 0


def test_clients_count_by_their_labelled_nodes_times_their_size():
    parties = community_parties()
    s = torch.tensor([float(g.train.sum()) for g in parties])
    n = torch.tensor([float(g.nodes) for g in parties])
    assert len(set(s.tolist())) > 1
    shares = {False: s * n / (s * n).sum(), True: (s / s.sum()) * (n / n.sum())}
    for literal, share in shares.items():
        options = {"weights": "labelled-and-size", "literal_weights": literal}
        outcome = train(make("fed-sage-plus", **QUICK, **options), parties, rounds=1)
        for name, theta in under(outcome.clients, "model").items():
            expected = torch.tensordot(share.double(), theta, dims=1)
            torch.testing.assert_close(under(outcome.server, "model")[name], expected, msg=name)


def test_the_generators_optimizer_lives_through_all_exchanges():
    """``keep_optimizer`` is about rounds; the generators are trained within one."""
    method = make("fed-sage-plus", **QUICK, keep_optimizer=False)
    outcome = train(method, community_parties(), rounds=2)
    assert outcome.clients["generator_optimizer/steps"].tolist() == [3 + 2] * 6
    assert outcome.clients["optimizer/steps"].tolist() == [1] * 6


def test_any_model_can_be_trained_on_the_mended_graph():
    outcome = train(make("fed-sage-plus", **QUICK, model=SAGE(hidden=8)), community_parties())
    assert outcome.replies.body["metric/loss"].isfinite().all()
    assert FedSagePlus().model == SAGE()


@pytest.mark.parametrize(
    ("option", "value"),
    [("hide", 0.0), ("hide", 1.0), ("most", 0), ("latent", 0), ("sample", 0), ("cross", -1.0),
     ("local_steps", -1), ("exchanges", -1), ("class_weight", -0.1)],
)  # fmt: skip
def test_impossible_settings_are_refused(option, value):
    with pytest.raises(AtollError, match=f"method.{option} is {value}"):
        FedSagePlus(**{option: value})
