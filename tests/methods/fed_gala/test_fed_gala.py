"""Fed-GALA on three clients that share the nodes at their borders."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from support import assert_same, assert_same_model, engine, make, train, values

from atoll.archive import pack, unpack
from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.validation import Batch
from atoll.graph import dense, make_graph
from atoll.leaves import Ragged
from atoll.methods.base import Info
from atoll.methods.client import Client
from atoll.methods.fed_gala import FedGala
from atoll.models.gcn import GCN
from atoll.partition.anchors import matched
from atoll.partition.louvain_anchors import with_anchors
from atoll.rng import CohortRng
from atoll.tasks.pairs import positive_links, sample_negatives
from atoll.tree import flat, nested, subtree, under
from small_federations import community_parties

PLAIN = GCN(hidden=8, dropout=0.0, head="graph")
AUGMENTING = ["fed-gala", "fed-gala-p", "max-augment"]
# In its second round a client's loss is within any such distance of the first one's.
AT_ONCE = 1e9
# Nothing of Fed-GALA is left.
BARE = {"link_weight": 0.0, "task_alpha": 0.0, "weights": "labelled", "class_loss": "mean"}


def overlapping():
    """Three separate graphs, joined by a dozen edges whose ends become anchors."""
    parts = community_parties((22, 26, 20))
    owner = np.repeat(np.arange(3), [g.nodes for g in parts])
    start = np.searchsorted(owner, np.arange(3))
    across = np.array(
        [
            [0, 3, 5, 7, 9, 12, 24, 26, 30, 33, 40, 2],
            [22, 23, 50, 51, 30, 60, 49, 52, 55, 61, 3, 48],
        ]
    )
    edges = [g.edges + s for g, s in zip(parts, start, strict=True)]
    whole = make_graph(
        sparse.csr_array(sparse.vstack([g.x for g in parts])),
        np.concatenate([*edges, across], axis=1),
        np.concatenate([g.y for g in parts]),
    )
    splits = {n: np.concatenate([getattr(g, n) for g in parts]) for n in ("train", "val", "test")}
    return with_anchors(replace(whole, **splits), owner, 3, "induced")


def gala(name="fed-gala", **options):
    return make(name, **({"model": PLAIN, "alpha": AT_ONCE, "epochs": 2} | options))


def phase(outcome):
    return int(outcome.server["phase/now"])


def ups(outcome, **where):
    return outcome.fed.ledger.table().filter(direction="up", **where)


def test_without_links_to_learn_or_add_it_is_fed_avg():
    parties = overlapping()
    plain = train(make("fed-avg", epochs=3), parties, rounds=4)
    ours = train(make("no-augment", **BARE, epochs=3), parties, rounds=4)
    assert_same_model(plain.clients, ours.clients)
    assert_same_model(plain.server, ours.server)


def test_and_with_the_proximal_term_fed_prox():
    parties = overlapping()
    pull = {"epochs": 3, "mu": 1.0, "adaptive": True}
    plain = train(make("fed-prox", **pull), parties, rounds=12)
    ours = train(make("no-augment", **pull, **BARE), parties, rounds=12)
    assert_same_model(plain.server, ours.server)
    assert float(plain.server["prox/mu"]) == float(ours.server["prox/mu"]) != 1.0


def test_the_combined_loss_is_that_of_the_equations():
    """Eq. 2.6, 2.8, 2.10 and 3.1, dense and one client at a time."""
    parties = overlapping()
    method = gala(link_weight=0.25, class_loss="sum", link_mean="nodes")
    outcome = train(method, parties, rounds=1)
    cohort = outcome.fed.host.cohort
    model_K = under(outcome.clients, "model")
    coins = CohortRng(3, cohort.clients, 1, "train")
    found = method.total_loss(model_K, cohort, None, coins)
    negatives = sample_negatives(cohort, CohortRng(3, cohort.clients, 1, "train"))
    start = 0
    for k, graph in enumerate(cohort.graphs):
        w = {name: p[k] for name, p in model_K.items()}
        a = torch.eye(graph.nodes, dtype=torch.float64)
        a[graph.edges[1], graph.edges[0]] = 1.0
        a = a / (a.sum(0)[:, None] * a.sum(0)).sqrt()
        h = (
            a @ torch.from_numpy(dense(graph.x)).double() @ w["conv1.weight"] + w["conv1.bias"]
        ).relu()
        z = a @ h @ w["conv2.weight"] + w["conv2.bias"]
        label = torch.from_numpy(graph.y)[graph.train]
        of_label = torch.log_softmax(z, 1)[graph.train].gather(1, label[:, None])
        own = (cohort.batch[negatives[0]] == k).nonzero().flatten()
        i, j = (negatives[:, own] - start).numpy()
        edges = 0.0
        for s, t in graph.edges.T:
            if s < t:
                edges -= torch.log(torch.sigmoid(z[s] @ z[t]))
        for s, t in zip(i, j, strict=True):
            edges -= torch.log(1 - torch.sigmoid(z[s] @ z[t]))
        expected = 0.25 * edges / graph.nodes + 0.75 * -of_label.sum()
        assert found[k].item() == pytest.approx(expected.item())
        start += graph.nodes


def test_the_mean_over_pairs_is_the_other_reading():
    outcome = train(gala(), overlapping(), rounds=1)
    cohort, model_K = outcome.fed.host.cohort, under(outcome.clients, "model")
    links = torch.bincount(cohort.batch[positive_links(cohort)[0]])
    client = Client(gala(), cohort, CohortRng(0, cohort.clients, 1, "train"), {})
    loss = {
        mean: gala(link_mean=mean, link_weight=0.5).steady(model_K, client, combined=True)
        - gala().steady(model_K, client, combined=False) / 2
        for mean in ("nodes", "pairs")
    }
    ratio = loss["nodes"] / loss["pairs"]
    assert ratio.tolist() == pytest.approx((2 * links / torch.tensor(cohort.sizes)).tolist())


def test_the_mean_over_labelled_nodes_likewise():
    outcome = train(gala(), overlapping(), rounds=1)
    cohort, model_K = outcome.fed.host.cohort, under(outcome.clients, "model")
    total, mean = (
        gala(class_loss=c).total_loss(model_K, cohort, None, None) for c in ("sum", "mean")
    )
    torch.testing.assert_close(total / mean, cohort.labelled)


def test_a_converged_client_stops_and_its_last_model_keeps_counting():
    parties = overlapping()
    one, two = (train(gala(alpha=0.0), parties, rounds=r).clients["training/loss"] for r in (1, 2))
    moved = (two - one).abs()
    assert len(moved.unique()) == 3
    between = float(moved.sort().values[:2].mean())
    stopped = int(moved.argmin())
    second, third = (train(gala(alpha=between), parties, rounds=r) for r in (2, 3))
    assert second.clients["training/active"].tolist() == [k != stopped for k in range(3)]
    assert phase(second) == 1
    weight = torch.tensor([float(g.train.sum() * g.nodes) for g in parties], dtype=torch.float64)
    for name, after in under(third.clients, "model").items():
        before = under(second.clients, "model")[name]
        for k in range(3):
            assert torch.equal(before[k], after[k]) == (k == stopped)
        mean = torch.tensordot(weight / weight.sum(), after, dims=1)
        torch.testing.assert_close(under(third.server, "model")[name], mean)
    assert third.clients["training/loss"][stopped] == second.clients["training/loss"][stopped]


def test_chance_does_not_move_the_loss_that_decides():
    """With a learning rate of nearly nothing the model stands still; the training loss does not."""
    still = {"optimizer": make("local").optimizer.__class__(lr=1e-12), "model": GCN(hidden=8)}
    steady = train(gala(alpha=1e-6, task_alpha=1e-6, **still), overlapping(), rounds=2)
    noisy = train(gala(alpha=1e-6, steady_loss=False, **still), overlapping(), rounds=6)
    assert phase(steady) == 3
    assert phase(noisy) == 1


def test_the_phases_follow_each_other():
    """Two rounds each at these thresholds, then nothing more is trained or sent."""
    options = {"alpha": AT_ONCE, "task_alpha": AT_ONCE}
    outcomes = [train(gala(**options), overlapping(), rounds=r) for r in range(1, 7)]
    assert [phase(o) for o in outcomes] == [1, 3, 3, 4, 4, 4]
    assert_same_model(outcomes[3].clients, outcomes[5].clients)
    steps = outcomes[-1].fed.ledger.table().select("round", "step").unique()
    assert sorted(steps.filter(steps["step"] != "evaluate").rows()) == [
        (1, "train"),
        (2, "augment"),
        (2, "share_anchors"),
        (2, "train"),
        (3, "train"),
        (4, "train"),
    ]
    concluded = gala().conclude(outcomes[-1].fed, nested(outcomes[-1].server))
    assert concluded.body["metric/trained_rounds"].tolist() == [4.0] * 3
    assert concluded.body["metric/combined_rounds"].tolist() == [2.0] * 3
    assert concluded.body["metric/augmented_round"].tolist() == [2.0] * 3


def test_added_links_are_described():
    """Counted anew by each client's own labels, which the server never sees."""
    parties = matched(overlapping())[0]
    outcome = train(gala(alpha=AT_ONCE), parties, rounds=3)
    concluded = gala().conclude(outcome.fed, nested(outcome.server))
    for k, links in enumerate(outcome.clients["edges/added"].blocks()):
        y = torch.from_numpy(parties[k].y)
        told = [float(concluded.body[f"metric/{n}"][k]) for n in ("links_added", "links_ends")]
        assert told == [len(links), len(set(links[:, 1].tolist()))]
        alike = [bool(y[a] == y[b]) for a, b in links.tolist()]
        assert float(concluded.body["metric/links_alike"][k]) == pytest.approx(np.mean(alike))


def test_patience_waits_until_losses_stay_still():
    """A loss counts as still in the second round of a phase at the earliest."""
    for patience in (1, 2, 3):
        options = {"alpha": AT_ONCE, "patience": patience}
        outcomes = [train(gala(**options), overlapping(), rounds=r) for r in range(1, 6)]
        first = next(i for i, o in enumerate(outcomes, start=1) if phase(o) == 3)
        assert first == 1 + patience


def test_phase_1_can_be_bounded():
    never = {"alpha": 0.0, "task_alpha": 0.0}
    assert phase(train(gala(**never), overlapping(), rounds=5)) == 1
    outcome = train(gala(**never, combined_rounds=3), overlapping(), rounds=5)
    assert phase(outcome) == 3
    assert int(outcome.server["phase/combined_rounds"]) == 3


def test_only_the_anchors_embeddings_leave_in_phase_2():
    parties = overlapping()
    outcome = train(gala(), parties, rounds=2)
    anchors = [len(g.anchors) for g in matched(parties)[0]]
    assert min(anchors) > 0
    assert max(a / g.nodes for a, g in zip(anchors, parties, strict=True)) < 1
    sent = ups(outcome, step="share_anchors")
    rows = zip(sent["client"], sent["name"], sent["shape"], strict=True)
    assert list(rows) == [(k, "embedding/anchors", f"[{a}, 3]") for k, a in enumerate(anchors)]
    assert len(ups(outcome, step="augment")) == 0
    down = outcome.fed.ledger.table().filter(direction="down", step="augment")
    assert list(down["shape"]) == list(sent["shape"])
    assert set(ups(outcome)["kind"]) == {"model", "metric", "weight", "embedding"}


@pytest.mark.parametrize("candidates", ["new", "all"])
@pytest.mark.parametrize("name", ["fed-gala", "max-augment"])
def test_each_anchor_gets_the_link_of_equation_3_4(name, candidates):
    """By entity ids, which the method never sees."""
    parties = overlapping()
    method = gala(name, candidates=candidates)
    outcome = train(method, parties, rounds=2)
    cohort = outcome.fed.host.cohort
    z_K = method.model.apply(under(outcome.clients, "model"), cohort).split(list(cohort.sizes))
    at = [{entity: row for row, entity in enumerate(g.ids)} for g in parties]
    expected = []
    for k, graph in enumerate(parties):
        links = []
        for row, entity in enumerate(graph.ids):
            owners = [j for j in range(3) if entity in at[j]]
            if len(owners) == 1:
                continue
            embedding = owners if name == "fed-gala" else [k]
            query = torch.stack([z_K[j][at[j][entity]] for j in embedding]).mean(0)
            score = (z_K[k] @ query).tolist()
            if candidates == "new":
                for linked in (row, *np.flatnonzero(graph.adjacency[[row]].toarray()[0])):
                    score[linked] = -np.inf
            links.append([row, int(np.argmax(score))])
        expected.append(links)
    added = outcome.clients["edges/added"]
    assert [block.tolist() for block in added.blocks()] == expected
    assert ("share_anchors" in set(ups(outcome)["step"])) == (name == "fed-gala")


def test_more_links_per_anchor():
    parties = overlapping()
    anchors = [len(g.anchors) for g in matched(parties)[0]]
    outcome = train(gala(links=3), parties, rounds=2)
    assert outcome.clients["edges/added"].sizes == tuple(3 * a for a in anchors)


def test_clients_train_and_are_scored_on_the_augmented_graphs():
    parties = overlapping()
    ours, without = (train(gala(n), parties, rounds=3) for n in ("fed-gala", "no-augment"))
    assert without.clients["edges/added"].sizes == (0, 0, 0)
    assert not ups(without)["step"].is_in(["share_anchors", "augment"]).any()
    cohort = ours.fed.host.cohort
    graphs = []
    for graph, links in zip(cohort.graphs, ours.clients["edges/added"].blocks(), strict=True):
        a = torch.from_numpy(graph.adjacency.toarray())
        a[links[:, 0], links[:, 1]] = a[links[:, 1], links[:, 0]] = 1.0
        edges = a.nonzero().T.numpy()
        graphs.append(type(graph)(**_fields(graph) | {"edges": edges}))
    method, augmented = gala(), Cohort(graphs, dtype=torch.float64)
    scores = method.task.scores(method.model, under(ours.clients, "model"), augmented)
    torch.testing.assert_close(ours.replies.body["metric/loss"], scores["loss"])
    assert not torch.equal(ours.replies.body["metric/loss"], without.replies.body["metric/loss"])


def _fields(graph):
    return {n: getattr(graph, n) for n in ("x", "y", "classes", "train", "val", "test", "ids")}


@pytest.mark.parametrize("name", AUGMENTING)
def test_the_laws_hold_with_anchors_through_all_phases(name):
    parties = overlapping()
    method = gala(name, model=GCN(hidden=8))
    whole = train(method, parties, rounds=5)
    assert phase(whole) == 3
    assert sum(whole.clients["edges/added"].sizes) > 0
    assert_same(whole, train(method, parties, rounds=5, chunk=1), 1e-9)
    assert_same(whole, train(method, parties, rounds=5, wire=True), 1e-9)


def test_a_run_goes_on_from_its_states_alone():
    """Through bytes, into a host that has never seen the added links."""
    method, parties = gala(model=GCN(hidden=8)), overlapping()
    straight, half = (train(method, parties, rounds=r) for r in (5, 3))
    state, clients = (unpack(pack(tree, {}))[0] for tree in (half.server, half.clients))
    server = nested(state)
    fed, [host] = engine(method, matched(parties)[0], None, 0, 0, False)
    host.state = clients
    for r in (4, 5):
        fed.begin(r)
        server = method.round(fed, server, r)
    for one, other in ((straight.server, flat(server)), (straight.clients, host.state)):
        assert set(one) == set(other)
        assert all(torch.equal(values(one[n]), values(other[n])) for n in one)


def test_a_client_that_sends_too_few_anchors_is_left_out():
    parties = overlapping()
    method = gala()
    outcome = train(method, parties, rounds=1)
    fed, original = outcome.fed, outcome.fed.deliver

    def with_a_lie(call, to, each):
        for batch in original(call, to, each):
            if call.step == "share_anchors":
                first, *rest = batch.body["embedding/anchors"].blocks()
                blocks = [first[:-1], *rest]
                sent = Ragged(torch.cat(blocks), tuple(len(b) for b in blocks))
                batch = Batch(batch.clients, {"embedding/anchors": sent}, batch.weight)
            yield batch

    fed.deliver = with_a_lie
    fed.begin(2)
    after = method.round(fed, nested(outcome.server), 2)
    assert [(r.step, r.client) for r in fed.rejections] == [("share_anchors", 0)]
    sizes = fed.host.state["edges/added"].sizes
    assert sizes[0] == 0 < min(sizes[1:])
    assert int(after["phase"]["now"]) == 3


def test_a_new_phase_forgets_the_last_loss_but_not_mu():
    outcome = train(gala("fed-gala-p", alpha=0.0, combined_rounds=7), overlapping(), rounds=7)
    pull = subtree(outcome.server, "prox")
    assert float(pull["mu"]) != 1.0
    assert float(pull["loss"]) == float("inf")
    assert float(pull["falls"]) == 0.0


@pytest.mark.parametrize("name", ["fed-avg", "fed-prox", "no-augment"])
def test_the_weights_of_equation_3_2(name):
    """By labelled nodes and size: normalised, and to the letter."""
    parties = overlapping()
    options = {"weights": "labelled-and-size", "model": PLAIN}
    s = np.array([g.train.sum() for g in parties])
    n = np.array([g.nodes for g in parties])
    letter = torch.from_numpy((s / s.sum()) * (n / n.sum()))
    assert letter.sum() < 0.5
    for literal, weight in ((False, letter / letter.sum()), (True, letter)):
        outcome = train(make(name, **options, literal_weights=literal), parties, rounds=1)
        for param, theta in under(outcome.clients, "model").items():
            mean = torch.tensordot(weight, theta, dims=1)
            torch.testing.assert_close(under(outcome.server, "model")[param], mean)


def test_the_server_needs_no_anchors(caplog):
    """Parties that share nothing: phase 2 has nothing to do, and it is said."""
    outcome = train(gala(), community_parties((20, 24)), rounds=4)
    assert "no two clients share a node" in caplog.text
    assert phase(outcome) == 3
    assert outcome.clients["edges/added"].sizes == (0, 0)
    info = Info(2, 3, 2, torch.float64)
    assert FedGala().start(info, 0)["anchor"]["numbers"].sizes == (0, 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("fraction", 0.5),
        ("link_weight", 1.0),
        ("link_weight", -0.1),
        ("links", 0),
        ("alpha", -1.0),
        ("task_alpha", -1.0),
        ("combined_rounds", -1),
        ("mu", -1.0),
    ],
)
def test_impossible_settings_are_refused(option, value):
    with pytest.raises(AtollError, match=rf"method\.{option} is {value}"):
        FedGala(**{option: value})


def test_literal_weights_need_weights_that_do_not_sum_to_one():
    with pytest.raises(AtollError, match=r"method\.literal_weights"):
        make("fed-avg", literal_weights=True)
