from dataclasses import replace

import numpy as np
import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.methods.base import methods
from atoll.models.aux_gcn import AuxGCN
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.rng import CohortRng
from atoll.tasks import node_batches
from atoll.tasks.node_batches import settled_fanout
from atoll.tasks.node_loss import class_weights
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_federations import community_parties

MODEL = GCN(hidden=4)


def one_pass(task, parties, seed=0, model=MODEL):
    cohort = Cohort(parties, dtype=torch.float64)
    rng = CohortRng(seed, cohort.clients, 1, "train")
    return task.passes(model, cohort, rng)()


def trained_ids(step, client):
    graph = step.cohort.graphs[client]
    return graph.ids[graph.train].tolist()


@pytest.mark.parametrize(
    "task",
    [
        NodeClassification(batch=4, fanout=(2,)),
        NodeClassification(batch=2, sampler="cluster", clusters=4),
    ],
    ids=["neighbour", "cluster"],
)
def test_a_pass_shows_every_training_node_once_and_then_waits(task):
    parties = community_parties((31, 14))
    steps = list(one_pass(task, parties))
    assert len(steps) > 1
    for client, graph in enumerate(parties):
        seen = [i for step in steps for i in trained_ids(step, client)]
        assert sorted(seen) == sorted(graph.ids[graph.train].tolist())
        for step in steps:
            assert bool(step.active[client]) == bool(trained_ids(step, client))
    assert all(step.cohort.clients == (0, 1) for step in steps)


def test_batches_come_in_another_order_in_the_next_pass():
    parties = community_parties((31,))
    cohort = Cohort(parties, dtype=torch.float64)
    passes = NodeClassification(batch=4).passes(MODEL, cohort, CohortRng(0, [0], 1, "train"))
    first, second = ([trained_ids(step, 0) for step in passes()] for _ in range(2))
    assert first != second


def test_a_step_holds_the_batch_and_its_neighbourhood_alone():
    graph = community_parties((31,))[0]
    for step in one_pass(NodeClassification(batch=2, fanout=(1,)), [graph]):
        assert sum(step.cohort.sizes) <= 2 * len(trained_ids(step, 0))


def test_clusters_keep_the_edges_between_them_and_their_own_degrees():
    graph = community_parties((31,))[0]
    task = NodeClassification(batch=2, sampler="cluster", clusters=4)
    for step in one_pass(task, [graph]):
        part = step.cohort.graphs[0]
        nodes = np.flatnonzero(np.isin(graph.ids, part.ids))
        induced = graph.adjacency[nodes][:, nodes]
        assert (part.adjacency != induced).nnz == 0


def test_classes_count_as_they_do_among_all_of_a_clients_nodes():
    parties = community_parties((31, 14))
    table = class_weights(Cohort(parties, dtype=torch.float64))
    task = NodeClassification(batch=4, class_weight="balanced")
    for step in one_pass(task, parties):
        assert torch.equal(class_weights(step.cohort), table)
    counts = np.bincount(parties[0].y[parties[0].train], minlength=3)
    expected = counts.sum() / (3 * counts)
    assert table[0].tolist() == pytest.approx(expected.tolist())


def test_scores_by_blocks_are_those_of_all_at_once(monkeypatch):
    cohort = Cohort(community_parties(), dtype=torch.float64)
    params = MODEL.init(cohort.features, cohort.classes, np.random.default_rng(0))
    params = {n: p * (1 + torch.arange(6.0).view(6, *[1] * p[0].dim()))
              for n, p in replicated(params, cohort.k).items()}  # fmt: skip
    whole = NodeClassification().scores(MODEL, params, cohort)
    fresh = Cohort(community_parties(), dtype=torch.float64)
    monkeypatch.setattr(node_batches, "_BLOCK", 40)
    monkeypatch.setattr(node_batches, "_SMALL", 0)
    found = NodeClassification(batch=1).scores(MODEL, params, fresh)
    for name, figure in whole.items():
        torch.testing.assert_close(found[name], figure, rtol=0, atol=1e-12)
    assert all(set(graph.derived) <= {"undirected"} for graph in fresh.graphs)


def test_how_many_hops_are_sampled():
    assert settled_fanout((), MODEL) == ((10,), True)
    assert settled_fanout((5,), MODEL) == ((5,), True)
    assert settled_fanout((5, 3), MODEL) == ((5, 3), False)
    assert settled_fanout((), SGC()) == ((), True)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"fanout": [5]}, "task.fanout has a meaning only in mini-batches; set task.batch above 0"),
        ({"sampler": "cluster"}, "task.sampler has a meaning only in mini-batches"),
        ({"batch": 9, "clusters": 3}, "only with task.sampler=cluster"),
        ({"batch": 9, "sampler": "cluster", "fanout": [5]}, "only where neighbours are sampled"),
        ({"batch": 9, "fanout": [5, 5, 5]}, "has 3 numbers, and the model 'gcn' samples 1 or 2"),
        ({"batch": -1}, "task.batch is -1; it must be at least 0 (0 is the full batch)"),
        ({"batch": 9, "fanout": [-1]}, "task.fanout is -1; it must be at least 0"),
        ({"batch": 9, "sampler": "layer"}, "layer"),
        ({"batch": 9, "fanout": 5}, "task.fanout is 5"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_in_a_sentence(table, words):
    with pytest.raises(AtollError) as problem:
        resolve({"task": table, "method": {"name": "fed-avg"}})
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


def test_methods_and_models_that_need_whole_graphs_are_refused():
    with pytest.raises(AtollError, match=r"fed-sage-plus needs its clients' whole graphs.*local"):
        methods["fed-sage-plus"](task=NodeClassification(batch=9))
    with pytest.raises(AtollError, match="'aux-gcn' does not say how many hops"):
        methods["fed-avg"](task=NodeClassification(batch=9), model=AuxGCN())


def test_batches_of_everything_are_said():
    sizes = [(100, 20), (60, 12)]
    said = NodeClassification(batch=20).remarks(sizes)
    assert said == [
        "task.batch is 20, and no client has more than 20 training nodes, so that every step saw "
        "all of them; choose a smaller one, or 0 for full batches."
    ]
    assert NodeClassification(batch=19).remarks(sizes) == []
    assert NodeClassification().remarks(sizes) == []
    clustered = NodeClassification(batch=3, sampler="cluster", clusters=3)
    assert "no client has more than 3 clusters" in clustered.remarks(sizes)[0]
    assert replace(clustered, clusters=4).remarks(sizes) == []
