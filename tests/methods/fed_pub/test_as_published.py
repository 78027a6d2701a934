"""FED-PUB's released code against a plain loop over clients that does what that code does."""

import torch
from support import make, train
from torch.nn.functional import cross_entropy

from atoll.graph import dense
from atoll.methods.base import Info
from atoll.methods.fed_pub.proxy import proxy_graph
from atoll.models.gcn import GCN
from atoll.optimizers.adam import Adam
from atoll.rng import server_stream
from atoll.tree import under
from small_federations import community_parties

MODEL = GCN(hidden=5, dropout=0.0)
RATE, DECAY, THRESHOLD, TAU = 0.05, 1e-3, 0.92, 4.0
MASKED = ("conv1.weight", "conv2.weight", "classifier.weight")


def method(**options):
    optimizer = Adam(lr=RATE, weight_decay=DECAY)
    return make("fed-pub-as-published", model=MODEL, optimizer=optimizer, tau=TAU,
                threshold=THRESHOLD, **options)  # fmt: skip


def propagation(graph):
    loops = torch.from_numpy(graph.adjacency.toarray()).double() + torch.eye(graph.nodes)
    root = loops.sum(1).rsqrt()
    return root[:, None] * loops * root


def second_layer(w, mask, x, P):
    m = {name: w[name] * mask[name] for name in MASKED}
    h = (P @ x @ m["conv1.weight"] + w["conv1.bias"]).relu()
    return P @ h @ m["conv2.weight"] + w["conv2.bias"], m["classifier.weight"]


def pruned(mask):
    return {name: m.masked_fill(m.abs() < THRESHOLD, 0) for name, m in mask.items()}


def released(parties, start, rounds):
    """Clients one by one: what they use after the last round, and the last similarity."""
    proxy = proxy_graph("sbm", parties[0].features, 3, 0.0, server_stream(0, 0, "proxy graph"))
    clients = []
    for graph in parties:
        w = {name: p.clone().requires_grad_() for name, p in start.items()}
        mask = {name: torch.ones_like(start[name]).requires_grad_() for name in MASKED}
        adam = torch.optim.Adam([*w.values(), *mask.values()], lr=RATE, weight_decay=DECAY)
        clients.append((graph, w, mask, adam))
    for r in range(rounds):
        embeddings = []
        for graph, w, mask, adam in clients:
            x, P = torch.from_numpy(dense(graph.x)).double(), propagation(graph)
            h, classifier = second_layer(w, mask, x, P)
            scores = h.relu() @ classifier + w["classifier.bias"]
            known = torch.from_numpy(graph.train)
            adam.zero_grad()
            cross_entropy(scores[known], torch.from_numpy(graph.y)[known]).backward()
            adam.step()
            with torch.no_grad():
                x_proxy = torch.from_numpy(dense(proxy.x)).double()
                found, _ = second_layer(w, pruned(mask), x_proxy, propagation(proxy))
                embeddings.append(found.mean(0))
        unit = torch.nn.functional.normalize(torch.stack(embeddings))
        S = unit @ unit.T
        alpha = torch.exp(TAU * S) / torch.exp(TAU * S).sum(1, keepdim=True)
        if r == rounds - 1:
            return [(w, pruned(mask)) for _, w, mask, _ in clients], S
        uploaded = [{name: p.detach().clone() for name, p in w.items()} for _, w, _, _ in clients]
        for i, (_, w, _, _) in enumerate(clients):
            for name, p in w.items():
                p.data = sum(alpha[i, j] * uploaded[j][name] for j in range(len(clients)))
    raise AssertionError


def test_the_same_models_and_similarities_as_a_plain_loop():
    parties, subject = community_parties((20, 25, 30)), method()
    info = Info(3, parties[0].features, parties[0].classes, torch.float64)
    expected, S = released(parties, subject.initial_model(info, 0), 3)
    outcome = train(subject, parties, rounds=3)
    torch.testing.assert_close(outcome.server["similarity/between"], S, rtol=0, atol=1e-12)
    found = under(outcome.clients, "model")
    for k, (w, mask) in enumerate(expected):
        for name, p in w.items():
            used = p * mask[name] if name in mask else p
            torch.testing.assert_close(found[name][k], used.detach(), rtol=0, atol=1e-12)
    kept = [float((m != 0).double().mean()) for _, mask in expected for m in mask.values()]
    assert 0 < min(kept) <= max(kept) < 1  # some entries are pruned, and not all


def test_masks_are_sent_and_mixed_and_the_mixture_is_not_used():
    outcome = train(method(), community_parties(), rounds=2)
    names = set(outcome.fed.ledger.table().filter(direction="up", step="train")["name"])
    assert "published_mask/conv1.weight" in names
    assert not any(name.endswith("#pattern") for name in names)
    mixed = under(outcome.server, "published_mask")["conv1.weight"]
    own = under(outcome.clients, "mask")["conv1.weight"]
    assert not torch.equal(mixed, torch.ones_like(mixed))
    assert not torch.equal(mixed, own)


def test_a_word_that_nobody_has_is_masked_by_weight_decay_alone():
    """Adam makes a full step of any steady gradient, however small."""
    parties = community_parties((20, 25))
    # Words that a client's nodes do not have.
    unseen = [torch.from_numpy(dense(g.x)).abs().sum(0) == 0 for g in parties]
    assert any(bool(words.any()) for words in unseen)
    tiny = Adam(lr=0.01, weight_decay=1e-6)
    outcome = train(make("fed-pub-as-published", model=MODEL, optimizer=tiny), parties, rounds=5)
    mask = under(outcome.clients, "mask")["conv1.weight"]
    for k, words in enumerate(unseen):
        if bool(words.any()):
            left = mask[k][words]
            torch.testing.assert_close(left, torch.full_like(left, 0.95), rtol=0, atol=1e-3)
