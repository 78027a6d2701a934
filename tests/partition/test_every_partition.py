"""What holds for every registered partition."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_graphs import cliques, edge_set, few_examples, graphs, id_set

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.partition import Partition, partitions
from atoll.rng import stream
from option_bounds import numbers_without_bounds, outside, refused_in_one_sentence

OPTIONS = {
    "metis-overlap": {"clients": 4, "samples": 2},
    "metis-imbalanced": {"clients": 4, "merged": (3, 2)},
    "node-per-client": {},
    "label-skew": {"clients": 3, "smallest": 2, "alpha": 2.0},
    "metis-plus": {"clients": 3, "parts": 5},
    "topology-skew": {"clients": 3, "parts": 2},
}
# Natural parties come with the data: see test_natural.py. Label domains draw splits of their own,
# from graphs of many labels: see test_label_domains.py. Chunks are of collections of small graphs:
# see test_chunks.py.
NAMES = [name for name in partitions if name not in ("natural", "label-domains", "chunks")]
DISJOINT = [
    "metis",
    "metis-imbalanced",
    "metis-plus",
    "louvain",
    "louvain-plus",
    "label-skew",
    "topology-skew",
    "random",
    "node-per-client",
]
seeds = st.integers(0, 2**32)


def scheme(name: str) -> Partition:
    return partitions[name](**OPTIONS.get(name, {"clients": 3}))


def cut(name: str, graph: Graph, seed: int) -> list[Graph]:
    try:
        return scheme(name).cut(graph, stream(seed, "cut"))
    except AtollError:
        # Too few communities or training nodes for the clients: nothing to see in this example.
        assume(False)
        raise


def fingerprint(parties: list[Graph]) -> str:
    digest = sha256()
    for party in parties:
        for part in (party.ids, party.edges, party.y, party.train, party.val, party.test):
            digest.update(np.ascontiguousarray(part.astype(np.int64)).tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", NAMES)
@few_examples
@given(graph=graphs(), seed=seeds)
def test_ids_lead_to_the_right_features_labels_and_edges(name, graph, seed):
    row = {entity: i for i, entity in enumerate(graph.ids.tolist())}
    edges = edge_set(graph)
    for party in cut(name, graph, seed):
        assert edge_set(party) <= edges
        if name == "borders":  # of copies, nothing but ids and edges is right
            party = party.subgraph(np.flatnonzero(np.abs(party.x).sum(1) > 0))
        whole = np.array([row[entity] for entity in party.ids.tolist()])
        assert (party.x == graph.x[whole]).all()
        known = party.y >= 0
        assert (party.y == graph.y[whole])[known].all()
        for split in ("train", "val", "test"):
            chosen = getattr(party, split)
            assert getattr(graph, split)[whole][chosen].all()
            if name != "shared-graph":
                assert (chosen == getattr(graph, split)[whole]).all()
        if name != "shared-graph":
            assert (known == (graph.y[whole] >= 0)).all()
        assert len(id_set(party)) == party.nodes, "a party holds an entity once"


# Independent half-samples leave some nodes out, by the paper's design.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "metis-overlap"])
@few_examples
@given(graph=graphs(), seed=seeds)
def test_covers_every_node(name, graph, seed):
    parties = cut(name, graph, seed)
    assert set.union(*map(id_set, parties)) == id_set(graph)
    for split in ("train", "val", "test"):
        placed = set()
        for party in parties:
            placed |= set(party.ids[getattr(party, split)].tolist())
        assert placed == set(graph.ids[getattr(graph, split)].tolist())


@pytest.mark.parametrize("name", DISJOINT)
@few_examples
@given(graph=graphs(), seed=seeds)
def test_disjoint_parties(name, graph, seed):
    parties = cut(name, graph, seed)
    assert sum(party.nodes for party in parties) == graph.nodes
    for party in parties:
        held = id_set(party)
        assert edge_set(party) == {(u, v) for u, v in edge_set(graph) if u in held and v in held}


@pytest.mark.parametrize("name", NAMES)
@few_examples
@given(graph=graphs(), seed=seeds)
def test_the_same_seed_gives_the_same_cut(name, graph, seed):
    assert fingerprint(cut(name, graph, seed)) == fingerprint(cut(name, graph, seed))


# Nothing is drawn where each node is a client.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "node-per-client"])
def test_another_seed_usually_gives_another_cut(name):
    # METIS and Louvain find the cliques whatever the seed, so cut across them.
    rng = np.random.default_rng(0)
    tangle = cliques(20, 3)
    order = rng.permutation(tangle.nodes)
    graph = tangle.subgraph(order)
    cuts = {fingerprint(scheme(name).cut(graph, stream(seed, "cut"))) for seed in range(10)}
    assert len(cuts) > 1


# A change here is a change of every experiment's data, on every machine.
GOLDEN = {
    "borders": "9ae9d656154e02d9",
    "label-skew": "230bb5e555883f7a",
    "louvain": "9743b411684f9125",
    "louvain-anchors": "943433c2342f9086",
    "louvain-plus": "5dabd1adb9dd213f",
    "metis": "f65f24dea407d54c",
    "metis-imbalanced": "c04b00f90db65c83",
    "metis-overlap": "2ab5d80b1ab9faf0",
    "metis-plus": "f17744621e29c114",
    "node-per-client": "a85959741f4c7673",
    "public-nodes": "249b3f041283513e",
    "random": "e7d23022bc43e5f5",
    "ring-overlap": "54434db5d9a19f51",
    "shared-graph": "611971b7a484418a",
    "topology-skew": "938212da084e1f9c",
}


@pytest.mark.parametrize("name", NAMES)
def test_cuts_are_what_they_were(name):
    parties = scheme(name).cut(cliques(5, 6), stream(7, "cut"))
    assert fingerprint(parties) == GOLDEN[name]


@pytest.mark.parametrize("name", NAMES)
def test_parties_pack_into_a_cohort(name):
    parties = scheme(name).cut(cliques(5, 6), stream(0, "cut"))
    cohort = Cohort(parties)
    operator = cohort.operator("gcn")
    total = sum(party.nodes for party in parties)
    assert operator.shape == (total, total)
    assert operator.csr.values().isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_more_clients_than_nodes_are_refused(name):
    with pytest.raises(AtollError, match="clients"):
        partitions[name](clients=50).cut(cliques(2, 6), stream(0, "cut"))


@pytest.mark.parametrize(
    ("name", "option", "value", "text"),
    [(name, *beyond) for name in partitions for beyond in outside(partitions[name])],
)
def test_a_value_out_of_bounds_is_refused(name, option, value, text):
    refused_in_one_sentence("partition", partitions[name], option, value, text)


@pytest.mark.parametrize("name", list(partitions))
def test_all_numbers_have_bounds(name):
    assert numbers_without_bounds(partitions[name]) == set()
