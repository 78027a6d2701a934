"""Steps of GraphFL's clients: on the weights, or in the dual of few nodes where that is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from atoll.methods.client import Client
from atoll.methods.graphfl.meta import Steps, adapted, gradient, meta_gradient, on_queries
from atoll.ops.optimize import SGD, descend
from atoll.ops.span import Walk, descend_in_span, span_of
from atoll.tree import Params

# A gradient of K clients, given the data, the parameters, and what makes steps of gradients.
GradientK = Callable[[Client, Params, Steps], Params]


def query_gradient(client: Client, theta: Mapping[str, Tensor], through_steps: bool) -> Params:
    """Stage I of Algorithm 1: ``epochs`` steps on S from ``theta``, then the gradient of ``L_Q``.

    It is the gradient with respect to what the steps began with (``through_steps``, eq. 6) or to
    what they ended with.
    """
    method, optimizer = client.method, client.method.optimizer
    theta_K = {name: p.clone() for name, p in theta.items()}
    dual = method.span(client.cohort, "train", "val")
    if dual is not None and isinstance(optimizer, SGD) and not through_steps:
        walk, _ = descend_in_span(method.model, dual, theta_K, optimizer, method.epochs)
        return dual.leave(method.model.nll_gradient(walk.params, on_queries(dual)))
    S = client.on(dual or client.cohort)
    Q = S.on(on_queries(S.cohort))
    if not through_steps:
        theta_K, _, _ = descend(
            theta_K, lambda p: S.loss(p, training=True), optimizer, {}, method.epochs
        )
        theta_K = {name: p.requires_grad_() for name, p in theta_K.items()}
        return gradient(theta_K, lambda p: Q.loss(p, training=True))
    g_K = meta_gradient(
        dual.enter(theta_K) if dual else theta_K,
        lambda p: S.loss(p, training=True),
        lambda p: Q.loss(p, training=True),
        optimizer.lr,
        method.epochs,
        weight_decay=optimizer.weight_decay,
        steps_of=dual.steps if dual else dict,
    )
    return dual.leave(g_K) if dual else g_K


def follow(client: Client, theta_K: Params, gradient_of: GradientK) -> Params:
    """``epochs`` steps of the optimizer along a gradient of S and Q, in the memory of ``theta_K``.

    The optimizer's state is the client's.
    """
    method, optimizer = client.method, client.method.optimizer
    dual = method.span(client.cohort, "train", "val")
    if dual is not None and isinstance(optimizer, SGD):
        walk = Walk(dual, theta_K, optimizer)
        for _ in range(method.epochs):
            walk.step(gradient_of(client.on(dual), walk.params, dual.steps))
        return walk.arrive()
    kept = client.state["optimizer"] if method.keep_optimizer else {}
    kept = kept or optimizer.init(theta_K)
    for _ in range(method.epochs):
        optimizer.step(theta_K, gradient_of(client, theta_K, dict), kept)
    client.state["optimizer"] = kept
    return theta_K


def adapted_to(client: Client, theta_K: Params, rate: float, steps: int) -> Params:
    """``theta <- theta - rate grad L_S(theta)``, some times over, without dropout.

    Plain gradient descent, whatever the optimizer in training.
    """
    method = client.method
    dual = span_of(method.model, client.cohort, "train")
    if dual is not None and steps:
        walk, _ = descend_in_span(method.model, dual, theta_K, SGD(lr=rate), steps)
        return walk.arrive()
    return adapted(theta_K, lambda p: method.loss(p, client.cohort), rate, steps)
