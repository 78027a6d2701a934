"""Personalised subgraph federated learning."""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.linalg import vector_norm

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.masked import filled, masked, masked_like, thresholded, unmasked
from atoll.methods.base import PRIVATE, SCALAR, Info, Method, register
from atoll.methods.client import Client, joined_trees
from atoll.methods.fed_pub.in_one_pass import Penalties, Trained, trained_in_one_pass
from atoll.methods.fed_pub.proxy import ProxyKind
from atoll.methods.fed_pub.similarity import Measure, Similarity, similarity_by
from atoll.ops.similarity import mixing_weights
from atoll.options import option
from atoll.tree import Kinds, Params, replicated, sq_dist, times


@register("fed-pub")
class FedPub(Method):
    """Models are mixed by similarity and masked by each client (FED-PUB, Baek et al., 2023).

    **Server** (Algorithm 2). Each client i gets a model of its own,
    ``theta_bar_i = sum_j alpha_ij theta_j`` with ``alpha_ij = exp(tau S_ij) / sum_k exp(tau S_ik)``
    (eq. 3). The similarity ``S_ij`` is the cosine of the models' functional embeddings: the mean
    over nodes of what each model makes of one random graph that nobody owns (``proxy``). The server
    has the models, so it computes them itself, which the paper says is the same.

    **Client** (Algorithm 1). ``theta_i = w_i * mu_i`` with ``w_i`` starting from ``theta_bar_i``
    and the mask ``mu_i`` (ones at first, one entry per weight, none for biases) kept from round to
    round. Both are trained on
    ``L(theta_i) + l1 |mu_i|_1 + proximal |theta_i - theta_bar_i|^2`` (eq. 4). Entries of the mask
    below ``threshold`` count as zero at test time and on the wire: only the other entries of
    ``theta_i`` are sent, with one bit per entry that says which, and only those of ``theta_bar_i``
    come back; for the rest the client goes on from its own ``w_i``. Masks never leave.

    Where the text leaves room or its code differs:

    - ``l1_norm``: eq. 4 with the sum of the mask's entries (``sum``) makes Adam drive nearly every
      mask to zero at the paper's ``l1 = 0.001``, since an entry's pull of 0.001 outweighs its share
      of the task's gradient. ``mean``, the default, divides by their number.
    - ``tau`` is 3 for disjoint and 5 for overlapping clients in the paper.
    - ``theta_i`` is sent and ``w_i`` starts from a mixture of them, so masks that stay above one
      multiply a weight again in every round. Where nothing holds them the model grows without
      bound: on ``digits``, dealt out at random to ten clients, it overflows after 160 rounds. In
      the released code ``w_i`` travels and this can't happen.
    - The text calls one symbol both the weight of the L1 term and the threshold; here they are two.
    - What the released code does instead is a method of its own, ``fed-pub-as-published``.

    ``masks = false`` and ``mix = "uniform"`` are the paper's ablations; both together are FedAvg
    with every client counting the same. ``mix`` may also compare the ``parameters`` themselves,
    the ``gradients`` (the updates ``theta_i - theta_bar_i``; Figure 3), or the clients' ``labels``
    (Table 10: one minus the Jensen-Shannon distance of the training nodes' classes, which every
    client must then reveal). ``proxy = "features"`` has each client embed its model on the random
    graph dressed in features of its own (Table 9) and send the embedding. ``community`` above -1
    mixes only clients that are more alike than that (Table 11: 0.5).
    """

    paper = ("fed-pub/table-2",)
    samples_nodes = True

    private = PRIVATE | {"mask", "weight"}
    # How likely an edge between the proxy's blocks is.
    across: ClassVar[float] = 0.01

    tau: float = option(3.0, at_least=0)
    l1: float = option(1e-3, at_least=0)
    proximal: float = option(1e-3, at_least=0)
    threshold: float = option(1e-3, at_least=0)
    l1_norm: Literal["mean", "sum"] = "mean"
    masks: bool = True
    mix: Measure = "function"
    proxy: ProxyKind = "sbm"
    community: float = option(-1.0, at_least=-1, at_most=1)

    def start(self, info: Info, seed: int) -> Kinds:
        model = replicated(self.initial_model(info, seed), info.clients)
        sizes = {"features": torch.tensor(info.features), "classes": torch.tensor(info.classes)}
        return {
            "model": model,
            # Which entries each client kept when it last answered: all of them, at first.
            "kept": {name: m.bool() for name, m in self.first_mask(model).items()},
            "proxy": sizes,
            "similarity": {"between": torch.eye(info.clients, dtype=info.dtype)},
        }

    def join(self, client: Client) -> Kinds:
        w = replicated(self.initial_model(client.cohort, client.rng.seed), client.k)
        mu = self.first_mask(w)
        own = {name: w[name].clone() for name in mu}
        optimizer = self.optimizer.init(joined_trees(w, mu))
        return {"model": w, "mask": mu, "weight": own, "optimizer": optimizer}

    def first_mask(self, params_K: Params) -> Params:
        """Weights have masks, biases do not."""
        weights = {name: p for name, p in params_K.items() if p.dim() > 2}
        return {name: torch.ones_like(p) for name, p in weights.items()} if self.masks else {}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        """Algorithm 2."""
        sent = masked(server["model"], server["kept"])
        one = masked_like({name: p[0] for name, p in server["model"].items()}, server["kept"])
        expect = {"model": one} | self.similarity.like(server)
        replies = fed.ask("train", each={"model": sent}, expect=expect)
        theta, kept = unmasked(replies["model"])
        S = self.similarity.between(theta, server, replies, fed.seed)
        alpha = mixing_weights(S, self.tau, self.community)
        mixture = fed.mixed(alpha, theta, server["model"], replies.rows)
        return updated(server, replies.rows, model=mixture, kept=kept, similarity={"between": S})

    @client_step
    def train(self, client: Client, model: dict[str, Any]) -> Reply:
        """Algorithm 1."""
        given = filled(model, client.state["weight"])
        trained = self.trained(client, given)
        theta, kept = trained.theta, trained.kept
        return Reply(model=masked(theta, kept), **self.similarity.sent(client, theta))

    def trained(self, client: Client, given: Params) -> Trained:
        """Local training; ``theta`` is the model that a client uses from now on."""
        penalties = self.penalties(client.state["mask"])
        found = trained_in_one_pass(self, client, given, penalties, self.threshold)
        if found is None:
            w, mu = client.descend(
                lambda w, mu: self.objective(client, w, mu, given),
                {name: p.clone() for name, p in given.items()},
                client.state["mask"],
            )
            found = Trained(w, mu, *thresholded(w, mu, self.threshold))
        weight = {name: found.w[name] for name in found.mu}
        client.state |= {"model": found.theta, "mask": found.mu, "weight": weight}
        return found

    def penalties(self, mu: Params) -> Penalties:
        """What eq. 4 adds to the loss."""
        count = sum(m[0].numel() for m in mu.values()) if self.l1_norm == "mean" else 1
        return Penalties(self.proximal, self.l1 / max(count, 1))

    def objective(self, client: Client, w: Params, mu: Params, given: Params) -> Tensor:
        """Eq. 4, one number per client ``[K]``."""
        theta = times(w, mu)
        penalties = self.penalties(mu)
        loss_K = client.loss(theta, training=True) + penalties.proximal * sq_dist(theta, given)
        if mu:
            total_K = torch.stack([vector_norm(m.flatten(1), 1, 1) for m in mu.values()]).sum(0)
            loss_K = loss_K + penalties.l1 * total_K
        return loss_K

    @property
    def similarity(self) -> Similarity:
        """How the server compares clients."""
        return similarity_by(self.mix, self.model, self.proxy, self.across)

    def similarities(self, server: Kinds) -> Tensor:
        between: Tensor = server["similarity"]["between"]
        return between

    def conclude(self, fed: Federation, server: Kinds) -> Replies:
        """``model_size``: the share of a client's parameters that it uses and sends."""
        return fed.ask("weigh", expect={"metric": {"model_size": SCALAR}})

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        whole = concluded is not None and bool((concluded["metric"]["model_size"] == 1).all())
        if not (self.masks and whole):
            return []
        return [f"no mask dropped an entry, so every client used and sent its whole model; give it "
                f"more rounds, raise method.threshold ({self.threshold:g}) or method.l1 "
                f"({self.l1:g}), or set method.l1_norm=sum."]  # fmt: skip

    @client_step
    def weigh(self, client: Client) -> Reply:
        dropped_K = torch.zeros(client.k, dtype=torch.float64)
        for m in client.state["mask"].values():
            dropped_K += (m.abs() < self.threshold).flatten(1).sum(1)
        size = sum(p[0].numel() for p in client.state["model"].values())
        return Reply(metric={"model_size": 1 - dropped_K / size})
