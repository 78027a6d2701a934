"""The aggregator as a matrix."""

import numpy as np
import pytest
import torch
from scipy import sparse

from atoll.cohort import Cohort
from atoll.methods.gfl_appnp.personalised import personalised_propagation
from atoll.models.appnp import APPNP
from atoll.rng import stream
from atoll.tree import replicated
from small_federations import community_parties

PAIR = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))


def test_two_linked_clients_by_hand():
    """P is 1/2 everywhere: 0.9 P + 0.1 I, or as printed 0.1 P + 0.9 I."""
    appnp = personalised_propagation(PAIR, alpha=0.1, hops=1)
    np.testing.assert_allclose(appnp, [[0.55, 0.45], [0.45, 0.55]])
    printed = personalised_propagation(PAIR, alpha=0.1, hops=1, weights="printed")
    np.testing.assert_allclose(printed, [[0.95, 0.05], [0.05, 0.95]])


def test_printed_is_the_sum_of_equation_13b():
    step = np.full((2, 2), 0.5)
    alpha, hops = 0.3, 3
    weights = [(1 - alpha) * alpha**i for i in range(hops)] + [alpha**hops]
    expected = sum(w * np.linalg.matrix_power(step, i) for i, w in enumerate(weights))
    found = personalised_propagation(PAIR, alpha, hops, "printed")
    np.testing.assert_allclose(found, expected)


def test_several_links_between_two_clients_count_as_one():
    np.testing.assert_array_equal(
        personalised_propagation(7 * PAIR, 0.1, 10), personalised_propagation(PAIR, 0.1, 10)
    )


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_it_is_what_appnp_does(alpha):
    (graph,) = community_parties((20,))
    cohort = Cohort([graph], dtype=torch.float64)
    model = APPNP(hidden=4, dropout=0.0, alpha=alpha, bias=False)
    params_K = replicated(model.init(graph.features, 3, stream(0, "appnp")), 1)
    h = (cohort.linear(params_K["lin1.weight"]).relu() @ params_K["lin2.weight"][0]).numpy()
    mixed = personalised_propagation(graph.adjacency, alpha, 10) @ h
    np.testing.assert_allclose(mixed, model.apply(params_K, cohort).numpy(), atol=1e-12)
