from dataclasses import replace

import numpy as np
import pytest
import torch
from support import SMALL, assert_same, assert_same_model, make, train

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.validation import Batch, without
from atoll.leaves import Ragged
from atoll.methods.fed_gnn import FedGNN, matching
from atoll.methods.fed_gnn.halo import first_products
from atoll.methods.fed_gnn.matching import same_anchors, similar_nodes
from atoll.models.module import Module
from atoll.tree import nested, replicated, under
from small_federations import community_parties


def overlapping():
    """Three parties; the first four nodes of each are the same entities."""
    parties = community_parties((20, 24, 18))
    return [replace(p, ids=np.array(["a", "b", "c", "d", *p.ids[4:]])) for p in parties]


def test_without_a_match_it_is_fed_avg():
    parties = community_parties()
    for alone in ({"threshold": 1.0}, {"match": "anchors"}):
        one, avg = train(make("fed-gnn", **alone), parties), train(make("fed-avg"), parties)
        assert_same_model(one.clients, avg.clients)
        assert_same_model(one.server, avg.server)


def test_the_most_similar_rows_of_others_above_the_threshold():
    """Client 0: east and north. Client 1: north-east and west. Client 2: nearly east."""
    blocks = [
        torch.tensor([[1.0, 0.0], [0.0, 2.0]]),
        torch.tensor([[3.0, 3.0], [-1.0, 0.0]]),
        torch.tensor([[9.0, 1.0]]),
    ]
    (at0, halo0), (at1, halo1), (at2, halo2) = similar_nodes(blocks, 0.5, 2)
    assert at0.tolist() == [0, 0, 1]
    assert halo0.tolist() == [[9, 1], [3, 3], [3, 3]]
    assert at1.tolist() == [0, 0]
    assert halo1[0].tolist() == [9, 1]
    assert at2.tolist() == [0, 0]
    assert halo2.tolist() == [[1, 0], [3, 3]]
    assert [halo.tolist() for _, halo in similar_nodes(blocks, 0.5, 1)] == [
        [[9, 1], [3, 3]],
        [[9, 1]],
        [[1, 0]],
    ]


def test_rows_are_matched_in_blocks_of_bounded_size(monkeypatch):
    rng = torch.Generator().manual_seed(0)
    blocks = [torch.randn(n, 4, generator=rng) for n in (7, 5, 9)]
    whole = similar_nodes(blocks, 0.2, 2)
    monkeypatch.setattr(matching, "_BLOCK", 2)
    for one, other in zip(whole, similar_nodes(blocks, 0.2, 2), strict=True):
        assert len(one.linked_to) > 0
        assert torch.equal(one.linked_to, other.linked_to)
        assert torch.equal(one.embedding, other.embedding)


def test_a_federation_of_one_has_no_halo_nodes():
    ((linked_to, embedding),) = similar_nodes([torch.ones(3, 2)], 0.5, 2)
    assert len(linked_to) == len(embedding) == 0


def test_holders_of_an_anchor_exchange_what_they_have_for_it():
    """Anchor 5 is held by all, 7 by clients 0 and 2; client 1 has no neighbour for 5."""
    blocks = [torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0]]), torch.tensor([[3.0], [4.0]])]
    numbers = [torch.tensor([7, 5]), torch.tensor([5]), torch.tensor([5, 7])]
    found = [(at.tolist(), e.flatten().tolist()) for at, e in same_anchors(blocks, numbers)]
    assert found == [([0, 1], [4, 3]), ([0, 0], [2, 3]), ([0, 1], [2, 1])]


def test_what_travels_for_an_anchor_is_the_mean_of_its_neighbours():
    parties = overlapping()
    outcome = train(make("fed-gnn", match="anchors"), parties, rounds=1)
    model = train(make("fed-gnn", match="anchors"), parties, rounds=0).server
    cohort = Cohort(parties[1:2], dtype=torch.float64)
    (product,) = first_products(SMALL, replicated(under(model, "model"), 1), cohort).values()
    neighbours = parties[1].adjacency[[2]].indices
    linked_to, embedding = outcome.clients["halo/linked_to"], outcome.clients["halo/embedding"]
    of_c = embedding.blocks()[0][linked_to.blocks()[0] == 2]
    assert any(torch.allclose(row, product[neighbours].mean(0)) for row in of_c)
    assert len(of_c) <= 2


def test_clients_receive_at_most_so_many_halo_nodes_per_node():
    outcome = train(make("fed-gnn", neighbours=2, threshold=-1.0), community_parties(), rounds=1)
    linked_to = outcome.clients["halo/linked_to"]
    for block, party in zip(linked_to.blocks(), community_parties(), strict=True):
        assert torch.equal(torch.bincount(block), torch.full((party.nodes,), 2))


def test_embeddings_travel_every_so_many_rounds_and_stay_until_then():
    parties = community_parties()
    outcome = train(make("fed-gnn", every=2), parties, rounds=4)
    asked = outcome.fed.ledger.table().filter(step="embed", direction="up")
    assert sorted(set(asked["round"])) == [1, 3]
    assert set(asked["name"]) == {"embedding/node"}
    one, two = (train(make("fed-gnn", every=2), parties, rounds=r) for r in (1, 2))
    assert len(one.clients["halo/linked_to"].values) > 0
    assert torch.equal(one.clients["halo/embedding"].values, two.clients["halo/embedding"].values)


def test_halo_nodes_change_what_is_learnt():
    parties = community_parties()
    one, avg = train(make("fed-gnn"), parties), train(make("fed-avg"), parties)
    name = "model/conv2.weight"
    assert not torch.allclose(one.server[name], avg.server[name])


def test_an_update_is_bounded_and_noised_on_its_way_only():
    parties = community_parties()
    start = train(make("fed-gnn"), parties, rounds=0).server
    plain = train(make("fed-gnn"), parties, rounds=1)
    clipped = train(make("fed-gnn", clip=1e-3), parties, rounds=1)
    noised = train(make("fed-gnn", clip=1e-3, noise=0.5), parties, rounds=1)
    for name, p in under(start, "model").items():
        assert (under(clipped.server, "model")[name] - p).abs().max() <= 1e-3 + 1e-12
        noise_of_mean = (under(noised.server, "model")[name] - p).abs().mean()
        assert 0.05 < float(noise_of_mean) < 0.5
    assert_same_model(plain.clients, noised.clients)


def test_clients_count_by_their_labelled_nodes_times_their_size():
    parties = community_parties()
    s = torch.tensor([float(g.train.sum()) for g in parties])
    n = torch.tensor([float(g.nodes) for g in parties])
    assert len(set(s.tolist())) > 1
    shares = {False: s * n / (s * n).sum(), True: (s / s.sum()) * (n / n.sum())}
    for literal, share in shares.items():
        options = {"weights": "labelled-and-size", "literal_weights": literal}
        outcome = train(make("fed-gnn", **options), parties, rounds=1)
        for name, theta in under(outcome.clients, "model").items():
            expected = torch.tensordot(share.double(), theta, dims=1)
            torch.testing.assert_close(under(outcome.server, "model")[name], expected, msg=name)


def test_clients_of_one_graph_are_scored_with_halo_nodes_of_their_own():
    """The same graph is kept once, but each client has other halo nodes beside it."""
    (graph,) = community_parties((30,))
    splits = ("train", "val", "test")
    parties = [
        replace(graph, **{split: np.roll(getattr(graph, split), i) for split in splits})
        for i in range(3)
    ]
    method = make("fed-gnn", evaluates="global", threshold=0.9)
    assert Cohort(parties).one_graph
    assert_same(train(method, parties), train(method, parties, chunk=1), 1e-9)


def test_only_matching_by_anchors_needs_them():
    assert FedGNN(match="anchors").needs_anchors
    assert not FedGNN(match="similar").needs_anchors


@pytest.mark.parametrize("options", [{"match": "anchors"}, {"noise": 0.01}, {"fraction": 0.5}])
def test_forms_obey_the_cohort_and_wire_laws(options):
    parties, method = overlapping(), make("fed-gnn", every=2, **options)
    whole = train(method, parties)
    assert_same(whole, train(method, parties, chunk=1), 1e-9)
    assert_same(whole, train(method, parties, wire=True), 1e-9)


def test_a_client_that_does_not_send_embeddings_gets_no_halo_and_is_in_nobodys():
    parties, method = community_parties((20, 24, 18)), make("fed-gnn", threshold=-1.0)
    outcome = train(method, parties, rounds=0)
    deliver = outcome.fed.deliver

    def lossy(call, to, each):
        for batch in deliver(call, to, each):
            yield without(batch, [2]) if call.step == "embed" else batch

    outcome.fed.deliver = lossy
    outcome.fed.begin(1)
    server = nested(outcome.server)
    after = method.round(outcome.fed, server, 1)
    assert set(after) == set(server)
    linked_to = outcome.fed.host.state["halo/linked_to"]
    assert linked_to.sizes == (3 * 20, 3 * 24, 0)


def test_a_reply_without_a_row_for_each_anchor_is_left_out(caplog):
    parties, method = overlapping(), make("fed-gnn", match="anchors")
    outcome = train(method, parties, rounds=0)
    deliver = outcome.fed.deliver

    def short(call, to, each):
        for batch in deliver(call, to, each):
            if call.step == "embed":
                leaf = batch.body["embedding/node"]
                cut = Ragged(leaf.values[1:], (leaf.sizes[0] - 1, *leaf.sizes[1:]))
                batch = Batch(batch.clients, {"embedding/node": cut}, batch.weight)
            yield batch

    outcome.fed.deliver = short
    outcome.fed.begin(1)
    method.round(outcome.fed, nested(outcome.server), 1)
    assert [(r.client, r.step) for r in outcome.fed.rejections] == [(0, "embed")]
    assert "'embedding/node' has 3 rows where 4 are due" in caplog.text
    assert outcome.fed.host.state["halo/linked_to"].sizes[0] == 0
    assert outcome.fed.host.state["halo/linked_to"].sizes[1] > 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("threshold", 1.5), ("neighbours", 0), ("every", 0), ("clip", -1.0), ("noise", -0.1)],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(AtollError, match=f"method.{option} is"):
        FedGNN(**{option: value})


class Flat(torch.nn.Linear):
    def forward(self, x, edge_index):
        return super().forward(x)


def test_a_model_that_can_not_be_given_halo_nodes_is_refused():
    with pytest.raises(AtollError, match="can't add halo nodes to model 'module'"):
        train(make("fed-gnn", model=Module(factory=Flat)), community_parties())
