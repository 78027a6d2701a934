import numpy as np
import pytest
import torch
from support import assert_same_model, make, train

from atoll.errors import AtollError
from atoll.federation.calls import Replies
from atoll.federation.validation import without
from atoll.methods.fed_pub import FedPub
from atoll.methods.fed_pub.proxy import functional_similarity
from atoll.ops.similarity import cosine, mixing_weights, overlap
from atoll.tree import flat, nested, under
from small_federations import community_parties

EQUAL = (24, 24, 24, 24)


def twins():
    """Parties with as many training nodes each, so that FedAvg's weights are uniform."""
    parties = community_parties(EQUAL)
    assert len({int(g.train.sum()) for g in parties}) == 1
    return parties


def test_uniform_without_masks_it_is_fed_avg():
    options = {"mix": "uniform", "masks": False, "proximal": 0.0, "epochs": 2}
    pub, avg = train(make("fed-pub", **options), twins()), train(make("fed-avg", epochs=2), twins())
    assert_same_model(pub.clients, avg.clients)
    for name, leaf in under(avg.server, "model").items():
        for row in under(pub.server, "model")[name]:
            torch.testing.assert_close(row, leaf)


def test_the_server_mixes_by_equation_3():
    """One round by hand: embed every client's model on the proxy, compare, mix."""
    parties = community_parties()
    method = make("fed-pub", tau=5.0)
    outcome = train(method, parties, rounds=1)
    theta = under(outcome.clients, "model")
    similarity = functional_similarity(method.model, theta, "sbm", parties[0].features, 3, 0.01, 0)
    alpha = mixing_weights(similarity, 5.0)
    assert alpha.sum(1).tolist() == pytest.approx([1.0] * 6)
    for name, sent in under(outcome.server, "model").items():
        torch.testing.assert_close(sent, torch.tensordot(alpha, theta[name], dims=1))


def replies(rows):
    """Empty replies of the clients in some rows of the server's tables."""
    return Replies(tuple(rows), {}, torch.ones(len(rows)), torch.tensor(rows))


def test_similarity_by_parameters_is_their_cosine():
    theta = {"a": torch.randn(3, 2, 2), "b": torch.randn(3, 4)}
    flat = torch.cat([theta["a"].flatten(1), theta["b"]], dim=1)
    found = FedPub(mix="parameters").similarity.between(theta, {}, replies([0, 1, 2]), 0)
    torch.testing.assert_close(found, cosine(flat))


def test_similarity_by_gradients_is_that_of_the_updates():
    before = torch.randn(4, 2, 2)
    step = torch.randn(2, 2, 2)
    theta = {"a": before[[1, 3]] + step}
    method, server = FedPub(mix="gradients"), {"model": {"a": before}}
    found = method.similarity.between(theta, server, replies([1, 3]), 0)
    torch.testing.assert_close(found, cosine(step.flatten(1)))


def test_similarity_by_labels_compares_the_training_nodes_classes():
    parties = community_parties()
    method = make("fed-pub", mix="labels")
    outcome = train(method, parties, rounds=1)
    counts = np.array([np.bincount(g.y[g.train], minlength=3) for g in parties], dtype=float)
    expected = overlap(torch.from_numpy(counts / counts.sum(1, keepdims=True)))
    alpha = mixing_weights(expected, method.tau)
    theta = under(outcome.clients, "model")["conv2.bias"]
    torch.testing.assert_close(under(outcome.server, "model")["conv2.bias"], alpha @ theta)


def test_a_proxy_of_own_features_is_embedded_by_the_clients():
    parties = community_parties()
    outcome = train(make("fed-pub", proxy="features"), parties, rounds=2)
    up = outcome.fed.ledger.table().filter(direction="up", step="train", round=2)
    assert "embedding/mean" in set(up["name"])
    assert up.filter(name="embedding/mean")["bytes"].sum() == 6 * 8 * 8
    chunked = train(make("fed-pub", proxy="features"), parties, rounds=2, chunk=2)
    for name, leaf in under(outcome.server, "model").items():
        torch.testing.assert_close(under(chunked.server, "model")[name], leaf)


def test_explicit_communities_leave_strangers_out():
    similarity = torch.tensor([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])
    alpha = mixing_weights(similarity, 2.0, above=0.5)
    near, far = np.exp(2.0), np.exp(1.6)
    assert alpha[0].tolist() == pytest.approx([near / (near + far), far / (near + far), 0.0])
    assert alpha[2].tolist() == [0.0, 0.0, 1.0]


def test_overlap_of_label_distributions_by_hand():
    shares = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    found = overlap(shares)
    assert found.diagonal().tolist() == pytest.approx([1.0] * 3)
    assert float(found[0, 1]) == pytest.approx(0.0)
    # JS(p, q) = H(0.75, 0.25) - H(0.5, 0.5) / 2 in bits, with H the entropy.
    assert float(found[0, 2]) == pytest.approx(1 - (0.8112781244591328 - 0.5) ** 0.5)


def test_masks_stay_and_change_and_biases_have_none():
    outcome = train(make("fed-pub"), community_parties(), rounds=3)
    masks = under(outcome.clients, "mask")
    assert set(masks) == {"conv1.weight", "conv2.weight", "classifier.weight"}
    assert not torch.equal(masks["conv2.weight"][0], masks["conv2.weight"][1])
    assert not any("mask" in name for name in outcome.fed.ledger.table()["name"])


def test_only_entries_above_the_threshold_travel_and_serve():
    """With half of the mask below the threshold, about half of the bytes are saved."""
    parties = community_parties()
    whole, half = (train(make("fed-pub", threshold=t), parties, rounds=2) for t in (0.0, 0.99))
    masks = under(half.clients, "mask")
    kept = sum(int((m.abs() >= 0.99).sum()) for m in masks.values())
    entries = sum(m.numel() for m in masks.values())
    assert 0.1 < kept / entries < 0.9

    def sent(outcome):
        up = outcome.fed.ledger.table().filter(round=2, direction="up", kind="model", step="train")
        return up.filter(up["name"].str.ends_with("weight"))["bytes"].sum()

    assert sent(whole) == 8 * entries
    assert sent(half) == 8 * kept
    for name, mask in masks.items():
        served = under(half.clients, "model")[name]
        assert (served[mask.abs() < 0.99] == 0).all()
    size = sum(p[0].numel() for p in under(half.clients, "model").values())
    concluded = make("fed-pub", threshold=0.99).conclude(half.fed, nested(half.server))
    shares = concluded.body["metric/model_size"]
    assert float(shares.sum()) * size == pytest.approx(6 * size - (entries - kept))


def test_only_the_entries_a_client_kept_come_back(monkeypatch):
    """And for the others it goes on from its own weights."""
    parties = community_parties()
    method = make("fed-pub", threshold=0.99)
    outcome = train(method, parties, rounds=2)
    kept = under(outcome.server, "kept")
    for name, mask in under(outcome.clients, "mask").items():
        assert torch.equal(kept[name], mask.abs() >= 0.99)
    own = {n: w.clone() for n, w in under(outcome.clients, "weight").items()}
    sent = under(outcome.server, "model")
    seen = {}
    original = FedPub.trained

    def spy(self, client, given):
        seen.update({n: g.clone() for n, g in given.items()})
        return original(self, client, given)

    monkeypatch.setattr(FedPub, "trained", spy)
    outcome.fed.begin(3)
    method.round(outcome.fed, nested(outcome.server), 3)
    for name, weight in own.items():
        assert torch.equal(seen[name], torch.where(kept[name], sent[name], weight))
    down = outcome.fed.ledger.table().filter(round=3, direction="down", step="train")
    values = down.filter(name="model/conv1.weight")["bytes"].sum()
    assert values == 8 * int(kept["conv1.weight"].sum())


def test_the_l1_term_shrinks_masks_and_the_proximal_term_holds_the_model():
    parties = community_parties()

    def size(**options):
        masks = under(train(make("fed-pub", **options), parties, rounds=8).clients, "mask")
        return sum(float(m.abs().sum()) for m in masks.values())

    assert size(l1=5.0) < size(l1=0.0)
    assert size(l1=0.01, l1_norm="sum") < size(l1=0.01, l1_norm="mean")

    def drift(proximal):
        one = train(make("fed-pub", proximal=proximal, epochs=6), parties, rounds=1)
        start = train(make("fed-pub"), parties, rounds=0)
        return sum(
            float((under(one.clients, "model")[n] - p).square().sum())
            for n, p in under(start.clients, "model").items()
        )

    assert drift(100.0) < drift(0.0)


@pytest.mark.parametrize("name", ["fed-pub", "fed-pub-as-published"])
def test_training_leaves_what_was_sent_alone(name):
    parties = community_parties()
    method = make(name)
    outcome = train(method, parties, rounds=1)
    before = {name: leaf.clone() for name, leaf in outcome.server.items()}
    outcome.fed.begin(2)
    method.round(outcome.fed, nested(outcome.server), 2)
    assert all(torch.equal(leaf, before[name]) for name, leaf in outcome.server.items())


def test_a_client_that_does_not_answer_keeps_its_model():
    parties = community_parties()
    method = make("fed-pub")
    whole = train(method, parties, rounds=1)
    fed = whole.fed
    original = fed.deliver

    def without_client_2(call, to, each):
        for batch in original(call, to, each):
            yield batch if call.step != "train" else _drop(batch, 2)

    fed.deliver = without_client_2
    fed.begin(2)
    after = flat(method.round(fed, nested(whole.server), 2))
    for name, sent in under(whole.server, "model").items():
        assert torch.equal(under(after, "model")[name][2], sent[2])
        assert not torch.equal(under(after, "model")[name][0], sent[0])


def _drop(batch, client):
    return without(batch, [i for i, c in enumerate(batch.clients) if c == client])


def test_a_pattern_that_does_not_fit_its_values_is_left_out():
    parties = community_parties()
    method = make("fed-pub")
    clean = train(method, parties, rounds=1, wire=True)
    fed = clean.fed
    original = fed.deliver

    def with_a_lie(call, to, each):
        for batch in original(call, to, each):
            if call.step == "train" and batch.clients == (3,):
                batch.body["model/conv2.weight"].pattern[0] = 0
            yield batch

    fed.deliver = with_a_lie
    fed.begin(2)
    after = flat(method.round(fed, nested(clean.server), 2))
    assert [(r.round, r.client) for r in fed.rejections] == [(2, 3)]
    assert "pattern" in fed.rejections[0].reason
    sent = under(clean.server, "model")["conv1.weight"]
    assert torch.equal(under(after, "model")["conv1.weight"][3], sent[3])


@pytest.mark.parametrize("name", ["tau", "l1", "proximal", "threshold"])
def test_negative_settings_are_refused(name):
    with pytest.raises(AtollError, match=f"method.{name} is -1"):
        FedPub(**{name: -1.0})


def test_clients_with_the_same_data_are_most_alike():
    """Two communities of clients with different labels: the functional similarity finds them."""
    odd, even = community_parties((40,), seed=1)[0], community_parties((40,), seed=2)[0]
    method = make("fed-pub", mix="function")
    outcome = train(method, [odd, odd, even, even], rounds=15)
    theta = under(outcome.clients, "model")
    similarity = functional_similarity(
        method.model, theta, "sbm", odd.features, odd.classes, 0.01, 0
    ).numpy()
    inside = np.mean([similarity[0, 1], similarity[2, 3]])
    across = similarity[:2, 2:].mean()
    assert inside > across
