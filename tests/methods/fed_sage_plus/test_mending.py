import numpy as np
import pytest
import torch

from atoll import kernels
from atoll.cohort import Cohort
from atoll.graph import dense
from atoll.leaves import Ragged
from atoll.methods.fed_sage_plus.mending import hide, impair, mend, mended
from atoll.models.gcn import GCN
from atoll.rng import CohortRng
from atoll.tasks.node_loss import nll
from atoll.tasks.nodes import NodeClassification
from atoll.tree import replicated
from small_federations import community_parties, path_graph

NODES = NodeClassification()


class Chooses:
    """A stream that hides the nodes it was told to."""

    def __init__(self, *nodes):
        self.nodes = nodes

    def choice(self, n, size, replace):
        assert size == len(self.nodes)
        return np.array(self.nodes)


def path():
    """0 - 1 - 2 - 3 - 4 with the node's number as its feature."""
    return path_graph(np.arange(5.0)[:, None], [0, 1, 0, 1, 0])


def test_hidden_nodes_are_gone_and_missed():
    part = hide(path(), 0.4, Chooses(3, 1))
    assert part.graph.x.tolist() == [[0], [2], [4]]
    assert part.graph.edges.shape == (2, 0)
    assert part.neighbours.toarray().tolist() == [[1, 0], [1, 1], [0, 1]]
    assert part.x.tolist() == [[1], [3]]


@pytest.mark.parametrize(("nodes", "share", "left"), [(1, 0.5, 1), (2, 0.9, 1), (9, 0.01, 8)])
def test_one_node_is_hidden_and_one_stays(nodes, share, left):
    graph = path_graph(np.ones((nodes, 1)), [0] * nodes)
    assert hide(graph, share, np.random.default_rng(0)).graph.nodes == left


@pytest.mark.parametrize("on_kernels", [True, False])
def test_each_row_finds_the_nearest_hidden_neighbour_of_its_node(on_kernels):
    """Against a loop over all hidden neighbours, for the nodes that have lost some."""
    cohort = Cohort(community_parties(), dtype=torch.float64)
    impaired = impair(cohort, 0.3, CohortRng(0, cohort.clients, 1, "any"))
    n = len(impaired.missing)
    owner = torch.arange(n).repeat_interleave(2)
    rows = torch.from_numpy(np.random.default_rng(1).random((2 * n, cohort.features)))
    which = (impaired.missing[owner] > 0).nonzero().flatten()
    with kernels.switched(on_kernels):
        at, squared = impaired.nearest(owner[which], rows[which])
    parts = [
        hide(g, 0.3, s)
        for g, s in zip(
            cohort.graphs,
            CohortRng(0, cohort.clients, 0, "hidden nodes").streams,
            strict=True,
        )
    ]
    expected, row = {}, 0
    for part in parts:
        x = dense(part.x)
        for lost in part.neighbours.toarray():
            for _ in range(2):
                if lost.any():
                    choices = x[lost > 0]
                    distance = ((choices - rows[row].numpy()) ** 2).sum(1)
                    expected[row] = choices[distance.argmin()]
                row += 1
    assert which.tolist() == sorted(expected)
    for found, number in zip(impaired.x[at].numpy(), which.tolist(), strict=True):
        assert np.array_equal(found, expected[number])
    torch.testing.assert_close(squared, (rows[which] - impaired.x[at]).square().sum(1))
    assert impaired.missing.sum() == sum(part.neighbours.nnz for part in parts)


def test_hiding_follows_from_the_seed_and_the_client():
    parties = community_parties()
    whole = Cohort(parties)
    rng = CohortRng(4, whole.clients, 7, "step")
    again = impair(Cohort(parties), 0.2, rng)
    alone = impair(whole.take([3]), 0.2, CohortRng(4, (3,), 1, "other step"))
    impaired = impair(whole, 0.2, rng)
    assert torch.equal(impaired.missing, again.missing)
    start = sum(g.nodes for g in impaired.cohort.graphs[:3])
    n = alone.cohort.graphs[0].nodes
    assert torch.equal(impaired.missing[start : start + n], alone.missing)


def test_a_graph_is_mended_by_leaves_that_no_one_scores():
    graph = mended(path(), np.array([0, 2, 0, 0, 1]), np.array([[7.0], [8.0], [9.0]]))
    assert graph.x.flatten().tolist() == [0, 1, 2, 3, 4, 7, 8, 9]
    a = graph.adjacency.toarray()
    assert np.array_equal(a, a.T)
    assert a[5:, :5].tolist() == [[0, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert not a[5:, 5:].any()
    assert a[:5, :5].sum() == path().adjacency.sum()
    assert graph.y[5:].tolist() == [-1, -1, -1]
    assert not (graph.train | graph.val | graph.test)[5:].any()
    assert len(set(graph.ids)) == 8


def neighbours(cohort, seed=0):
    """A few new neighbours at some of the nodes."""
    rng = np.random.default_rng(seed)
    counts = torch.from_numpy(rng.integers(0, 3, sum(cohort.sizes)))
    sizes = tuple(int(c.sum()) for c in torch.split(counts, list(cohort.sizes)))
    rows = torch.from_numpy(rng.normal(size=(sum(sizes), cohort.features)))
    return Ragged(counts, cohort.sizes), Ragged(rows, sizes)


@pytest.mark.parametrize("form", [False, True])
@pytest.mark.parametrize(("operator", "hops"), [("", 1), ("gcn", 1), ("mean", 1), ("gcn", 3)])
def test_a_mended_cohort_is_the_cohort_of_mended_graphs(form, operator, hops):
    cohort = Cohort(community_parties(dense=form), dtype=torch.float64)
    fast = mend(cohort, *neighbours(cohort))
    plain = Cohort(fast.inputs.graphs, cohort.clients, torch.float64)
    weight = torch.randn(cohort.k, cohort.features, 5, dtype=torch.float64)
    torch.testing.assert_close(
        fast.linear(weight, operator, hops), plain.linear(weight, operator, hops)
    )
    assert torch.equal(fast.y, plain.y)


def test_steps_look_only_at_the_generated_nodes_that_matter():
    parties = [
        g.relabelled(y=g.y, train=np.arange(g.nodes) < 2, val=g.val, name=g.name)
        for g in community_parties()
    ]
    cohort = Cohort(parties, dtype=torch.float64)
    mended_cohort = mend(cohort, *neighbours(cohort))
    model = GCN(hidden=4, dropout=0.0)
    params = model.init(cohort.features, cohort.classes, np.random.default_rng(1))
    params_K = replicated(params, cohort.k)
    near = mended_cohort.k_hop(model.reach, "train")
    assert len(near.batch) < len(mended_cohort.batch)
    whole = model.apply(params_K, Cohort(mended_cohort.inputs.graphs, dtype=torch.float64))
    torch.testing.assert_close(
        NODES.loss(model, params_K, mended_cohort), nll(whole, mended_cohort)
    )


def test_a_mended_cohort_is_kept_until_its_neighbours_change():
    cohort = Cohort(community_parties(), dtype=torch.float64)
    counts, rows = neighbours(cohort)
    first = mend(cohort, counts, rows)
    same = mend(cohort, counts, Ragged(rows.values.clone(), rows.sizes))
    other = mend(cohort, counts, Ragged(rows.values + 1, rows.sizes))
    assert same is first
    assert other is not first
    assert not np.array_equal(dense(other.inputs.graphs[0].x), dense(first.inputs.graphs[0].x))


def test_nothing_generated_leaves_the_cohort_as_it_is():
    cohort = Cohort(community_parties())
    nothing = Ragged(torch.zeros(0, cohort.features), (0,) * cohort.k)
    counts = Ragged(torch.zeros(sum(cohort.sizes), dtype=torch.int64), cohort.sizes)
    assert mend(cohort, counts, nothing) is cohort
