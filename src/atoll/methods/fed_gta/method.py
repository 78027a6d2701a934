"""Topology-aware averaging."""

from typing import Literal

import torch
from torch import Tensor

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.methods.base import SCALAR, Info, Method, register
from atoll.methods.client import Client
from atoll.methods.fed_gta.spreading import (
    Moments,
    Spread,
    confidence,
    distributions,
    moments_of,
    spread_labels,
)
from atoll.ops.similarity import cosine
from atoll.options import option
from atoll.tree import Kinds, Params, replicated


@register("fed-gta")
class FedGTA(Method):
    """Models are averaged among clients whose labels spread alike (FedGTA, Li et al., VLDB 2024).

    **Client.** It trains the model it gets, then spreads labels over its graph. ``Y0`` is the label
    where a node trains and the model's softmax elsewhere; ``steps`` times
    ``Y <- alpha P Y + (1 - alpha) Y0``, and training nodes add ``Y0`` once more each time. With
    ``Pr = softmax(Y)`` and ``Q = softmax(Y / temperature)``, both the label itself where a node
    trains, it sends its model and

    - the moments ``M``: the means over its nodes of each column of ``Pr^p``, p = 1 to ``order``
      (``raw``), of ``(Pr - mean)^p`` (``central``), or of both (``hybrid``);
    - one number, its smoothness confidence ``w = sum_i d_i (C/e + sum_c Q_ic ln Q_ic)`` with the
      degrees ``d_i``: well-connected nodes whose spread label is clear count most.

    **Server.** Client i gets ``sum_j w_j theta_j / sum_j w_j`` over ``{j : cos(M_i, M_j) > eps}``,
    itself among them in any case. It sees every model, moments and confidence, so the method can't
    run under secure aggregation. Moments of first order are the shares of the classes that a client
    expects among its nodes.

    The paper's settings for Cora, CiteSeer and PubMed, with the model ``gamlp``, Adam at 0.01,
    weight decay 5e-4, 3 epochs and 100 rounds: ``order`` 6, 20, 13; ``eps`` 0.5, 0.6, 0.65;
    ``moments`` hybrid, hybrid, raw. The defaults are Cora's. Any model can be given.

    Readings and departures:

    - The released code has ``Q ln (Q + 1e-8)``; here ``0 ln 0`` is zero.
    - In it, nodes of no split begin with their true label. Here they begin with the prediction.
    - Neighbourhoods whose confidences are all zero, that is clients without an edge, are averaged
      with equal weights; the code divides by zero.
    - ``spread = "training"`` is OpenFGL's port: only training nodes begin with something, and that
      is what is predicted for them, not their label; the operator has no loops and values are held
      between 0 and 1. Its ``order`` is 10 and ``eps`` 0.5 everywhere.
    - ``weights = "equal"`` lets every client count the same; with ``eps = -1`` as well that is
      FedAvg with equal weights, whatever the moments.
    - ``evaluates``: clients are scored with the model they have just ``local``-ly trained, as in
      all methods here, or with the ``mixed`` one they get next, as in the released code, which
      also averages accuracies by nodes and not by clients.
    """

    paper = ("fed-gta/louvain-cora",)
    tasks = ("nodes",)

    order: int = option(6, at_least=1)
    moments: Moments = "hybrid"
    eps: float = option(0.5, at_least=-1, below=1, why="it is a cosine")
    steps: int = option(5, at_least=1)
    alpha: float = option(0.5, at_least=0, at_most=1)
    temperature: float = option(20.0, above=0)
    spread: Spread = "all"
    weights: Literal["confidence", "equal"] = "confidence"
    evaluates: Literal["local", "mixed"] = "local"

    def start(self, info: Info, seed: int) -> Kinds:
        k, orders = info.clients, self.order * (2 if self.moments == "hybrid" else 1)
        return {
            "model": replicated(self.initial_model(info, seed), k),
            "moments": {"of": torch.zeros(k, orders * info.classes, dtype=info.dtype)},
            "similarity": {"between": torch.eye(k, dtype=info.dtype)},
        }

    def join(self, client: Client) -> Kinds:
        model = self.initial_model(client.cohort, client.rng.seed)
        return self.trainable(replicated(model, client.k))

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        sent = server["model"]
        expect = {
            "model": {name: p[0] for name, p in sent.items()},
            "moments": {"of": server["moments"]["of"][0]},
            "confidence": {"w": SCALAR},
        }
        replies = fed.ask("train", each={"model": sent}, expect=expect)
        M, w = replies["moments"]["of"], replies["confidence"]["w"]
        S = cosine(M)
        share = shares(S, torch.ones_like(w) if self.weights == "equal" else w, self.eps)
        mixture = fed.mixed(share, replies["model"], sent, replies.rows)
        similarity = {"between": S}
        return updated(
            server, replies.rows, model=mixture, moments={"of": M}, similarity=similarity
        )

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        w = client.fit(model)
        cohort = client.cohort
        with torch.no_grad():
            soft = self.model.apply(w, cohort).softmax(1)
            y = spread_labels(soft, cohort, self.spread, self.steps, self.alpha)
            M = moments_of(distributions(y, cohort, 1.0), cohort, self.moments, self.order)
            clear = confidence(distributions(y, cohort, self.temperature), cohort)
        return Reply(model=w, moments={"of": M}, confidence={"w": clear})

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        return {"each": {"model": server["model"]}} if self.evaluates == "mixed" else {}

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        S = server["similarity"]["between"]
        others = ~torch.eye(len(S), dtype=torch.bool)
        if len(S) == 1 or bool((S[others] > self.eps).any()):
            return []
        return [
            f"no two clients were more alike than method.eps ({self.eps:g}) in the last round, so "
            f"each kept its own model; lower method.eps."
        ]


def shares(similarity: Tensor, w: Tensor, eps: float) -> Tensor:
    """What client j counts in client i's average ``[m, m]``; rows sum to one."""
    alike = (similarity > eps) | torch.eye(len(w), dtype=torch.bool)
    counted = alike * w
    silent = counted.sum(1, keepdim=True) == 0
    counted = torch.where(silent, alike.to(w.dtype), counted)
    return counted / counted.sum(1, keepdim=True)
