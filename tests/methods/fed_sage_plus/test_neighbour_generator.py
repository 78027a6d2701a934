import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from atoll import kernels
from atoll.cohort import Cohort
from atoll.cohort.targets import Targets
from atoll.methods.fed_sage_plus.losses import class_loss, degree_loss, feature_loss
from atoll.methods.fed_sage_plus.made import Generated, Output
from atoll.methods.fed_sage_plus.mending import impair, mended
from atoll.methods.fed_sage_plus.neighbour_generator import NeighbourGenerator
from atoll.models.sage import SAGE
from atoll.rng import CohortRng
from atoll.tree import replicated
from small_federations import community_parties

GENERATOR = NeighbourGenerator(latent=6, most=3)


def setting():
    cohort = Cohort(community_parties(), dtype=torch.float64)
    rng = CohortRng(0, cohort.clients, 1, "test")
    impaired = impair(cohort, 0.25, rng)
    params = GENERATOR.init(cohort.features, cohort.classes, np.random.default_rng(3))
    params_K = replicated(params, cohort.k)
    for p in params_K.values():
        p += 0.3 * torch.randn(p.shape, dtype=p.dtype, generator=torch.Generator().manual_seed(1))
    return impaired, params_K, rng


def targets(cohort, nodes):
    return Targets(cohort.inputs, nodes, cohort.batch[nodes])


def test_as_many_neighbours_as_predicted_are_made_and_never_more_than_the_most():
    impaired, params_K, rng = setting()
    params_K["degree.bias"] += torch.linspace(-1, 5, len(params_K["degree.bias"]))[:, None]
    degree, made = GENERATOR.generate(params_K, impaired.cohort, rng)
    counts = torch.bincount(made.owner, minlength=len(degree))
    assert torch.equal(counts, degree.round().clamp(0, 3).long())
    assert set(counts.tolist()) == {0, 1, 2, 3}
    assert made.rows.shape == (sum(made.sizes), impaired.cohort.features)
    by_client = torch.bincount(impaired.cohort.batch[made.owner], minlength=impaired.cohort.k)
    assert made.sizes == tuple(by_client.tolist())


def test_noise_makes_siblings_differ_and_the_same_coins_make_the_same_rows():
    impaired, params_K, _ = setting()
    params_K["degree.bias"] += 2
    coins = [CohortRng(0, impaired.cohort.clients, 2, "coins") for _ in range(2)]
    first, again = (GENERATOR.generate(params_K, impaired.cohort, c).generated for c in coins)
    assert torch.equal(first.rows, again.rows)
    siblings = first.owner[1:] == first.owner[:-1]
    assert siblings.any()
    assert not (first.rows[1:] == first.rows[:-1])[siblings].all(1).any()


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("step", [1, 3, 20])
def test_the_classifier_sees_the_mended_graph(more, step):
    """The same layers as the sage model, applied to graphs that were really mended.

    Also where more are generated than there are nodes, and for the scores of some nodes only.
    """
    impaired, params_K, rng = setting()
    params_K["degree.bias"] += more
    made = GENERATOR.generate(params_K, impaired.cohort, rng).generated
    assert (len(made.rows) > len(impaired.cohort.batch)) == (more == 1)
    nodes = torch.arange(0, len(impaired.cohort.batch), step)
    found = GENERATOR.classify(params_K, impaired, made, targets(impaired.cohort, nodes))
    cohort, start, graphs = impaired.cohort, 0, []
    for graph, rows in zip(cohort.graphs, torch.split(made.rows, list(made.sizes)), strict=True):
        own = made.owner[(made.owner >= start) & (made.owner < start + graph.nodes)] - start
        counts = np.bincount(own.numpy(), minlength=graph.nodes)
        graphs.append(mended(graph, counts, rows.detach().numpy()))
        start += graph.nodes
    whole = Cohort(graphs, dtype=torch.float64)
    sage = {f"sage{i}.{n}": params_K[f"classify{i}.{n}"] for i in (1, 2) for n in
            ("neighbour", "self", "bias")}  # fmt: skip
    logits = torch.split(SAGE(hidden=6).apply(sage, whole), list(whole.sizes))
    expected = torch.cat([part[:n] for part, n in zip(logits, cohort.sizes, strict=True)])
    torch.testing.assert_close(found, expected[nodes], rtol=1e-12, atol=1e-12)


def plain_losses(degree, made, impaired, logits):
    """The three losses of all clients, by loops."""
    result = []
    for client in range(impaired.cohort.k):
        nodes = (impaired.cohort.batch == client).nonzero().flatten().tolist()
        count, feature, entropy = 0.0, 0.0, []
        for v in nodes:
            off = abs(degree[v] - impaired.missing[v])
            count = count + (0.5 * off**2 if off < 1 else off - 0.5)
            start = int(impaired.start[v])
            lost = impaired.neighbour[start : start + int(impaired.missing[v])].tolist()
            for p in (made.owner == v).nonzero().flatten().tolist():
                if lost:
                    feature = feature + min(
                        ((made.rows[p] - impaired.x[u]) ** 2).sum() for u in lost
                    )
            if v in impaired.cohort.rows("train").tolist():
                entropy.append(cross_entropy(logits[v : v + 1], impaired.cohort.y[v : v + 1]))
        result.append((count / len(nodes), feature / len(nodes), sum(entropy) / len(entropy)))
    columns = zip(*result, strict=True)
    return [torch.stack([torch.as_tensor(x, dtype=torch.float64) for x in c]) for c in columns]


def test_the_losses_are_their_formulas():
    impaired, params_K, rng = setting()
    params_K["degree.bias"] += 1
    output = GENERATOR.generate(params_K, impaired.cohort, rng)
    everybody = targets(impaired.cohort, torch.arange(len(impaired.cohort.batch)))
    logits = GENERATOR.classify(params_K, impaired, output.generated, everybody)
    found = (
        degree_loss(output, impaired),
        feature_loss(output, impaired),
        class_loss(logits[impaired.cohort.rows("train")], impaired.cohort),
    )
    expected = torch.stack(plain_losses(output.degree, output.generated, impaired, logits))
    assert (expected > 0).all()
    torch.testing.assert_close(torch.stack(found), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("on_kernels", [True, False])
def test_all_that_is_learned_from_rows_has_the_gradient_of_plain_loops(on_kernels):
    impaired, params_K, rng = setting()
    params_K["degree.bias"] += 1
    made = GENERATOR.generate(params_K, impaired.cohort, rng).generated
    rows = made.rows.clone().requires_grad_()
    degree, some = torch.zeros(len(impaired.missing)), torch.arange(1, len(rows), 3)
    output = Output(degree, Generated.of(made.owner, rows, made.sizes))
    with kernels.switched(on_kernels):
        loss = feature_loss(output, impaired).sum() + output.generated.at(some).square().sum()
        (found,) = torch.autograd.grad(loss + rows.sum(), rows)
    logits = torch.zeros(len(degree), impaired.cohort.classes, dtype=rows.dtype)
    plain = plain_losses(degree, output.generated, impaired, logits)[1].sum()
    (expected,) = torch.autograd.grad(plain + rows[some].square().sum() + rows.sum(), rows)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_generators_that_make_nothing_have_a_gradient_all_the_same(k):
    cohort = Cohort(community_parties((20, 20, 20)[:k]), dtype=torch.float64)
    rng = CohortRng(0, cohort.clients, 1, "test")
    impaired = impair(cohort, 0.25, rng)
    params = GENERATOR.init(cohort.features, cohort.classes, np.random.default_rng(3))
    params_K = {n: p.requires_grad_() for n, p in replicated(params, k).items()}
    with torch.no_grad():
        params_K["degree.bias"].fill_(0.1)
        params_K["degree.weight"].mul_(0.01)
    output = GENERATOR.generate(params_K, impaired.cohort, rng)
    assert output.generated.sizes == (0,) * k
    train = impaired.cohort.targets("train")
    logits = GENERATOR.classify(params_K, impaired, output.generated, train)
    loss = degree_loss(output, impaired) + feature_loss(output, impaired)
    grads = torch.autograd.grad((loss + class_loss(logits, cohort=impaired.cohort)).sum(),
                                list(params_K.values()))  # fmt: skip
    assert all(g.isfinite().all() for g in grads)


def test_a_row_of_a_node_that_lost_nothing_adds_nothing():
    impaired, _, _ = setting()
    complete = (impaired.missing == 0).nonzero().flatten()[:4]
    rows = torch.ones(4, impaired.cohort.features, dtype=torch.float64)
    degree = torch.zeros(len(impaired.missing), dtype=torch.float64)
    output = Output(degree, Generated.of(complete, rows, (4, 0, 0, 0, 0, 0)))
    assert feature_loss(output, impaired).tolist() == [0.0] * 6
