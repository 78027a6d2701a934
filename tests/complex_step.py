"""Exact gradients of formulas written in NumPy, independent of automatic differentiation.

The imaginary part of ``f(x + i h) / h`` is the derivative to the last digit for h as small as one
likes, since nothing is subtracted. Formulas must be analytic: no conjugates, no absolute values,
and conditions on real parts.
"""

import numpy as np

_H = 1e-40


def gradient(f, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of ``f(params)``, a number, with respect to every entry."""
    found = {}
    for name, value in params.items():
        found[name] = np.zeros(value.shape)
        for at in np.ndindex(value.shape):
            moved = value.astype(complex)
            moved[at] += 1j * _H
            found[name][at] = f(params | {name: moved}).imag / _H
    return found


def stepped(f, params, lr):
    """One step of gradient descent."""
    slope = gradient(f, params)
    return {name: value - lr * slope[name] for name, value in params.items()}


def relu(x):
    return np.where(x.real > 0, x, 0)


def softmax(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def cross_entropy(logits, graph):
    rows = np.flatnonzero(graph.train)
    return -np.log(softmax(logits)[rows, graph.y[rows]]).mean()


def gcn(graph):
    a = graph.adjacency.toarray() + np.eye(graph.nodes)
    d = a.sum(1) ** -0.5
    return d[:, None] * a * d


def dense_x(graph):
    return np.asarray(graph.x.todense() if hasattr(graph.x, "todense") else graph.x, dtype=float)


def client(tree, kind, k):
    """One client's part of a flat tree, in NumPy."""
    prefix = f"{kind}/"
    return {n.removeprefix(prefix): v[k].numpy() for n, v in tree.items() if n.startswith(prefix)}


def assert_equal(found, expected, tolerance=1e-10):
    assert set(found) == set(expected)
    for name in found:
        np.testing.assert_allclose(
            found[name], expected[name], atol=tolerance, rtol=0, err_msg=name
        )
