"""Mixing by auxiliary vectors."""

from dataclasses import field
from typing import Literal

import torch

from atoll.errors import AtollError
from atoll.federation.calls import Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.methods.base import PRIVATE, Info, Method, register
from atoll.methods.client import Client, joined_trees
from atoll.models.aux_gcn import AuxGCN
from atoll.models.base import Model
from atoll.ops.similarity import cosine, mixing_weights
from atoll.options import option
from atoll.tree import Kinds, Params, replicated, times


@register("fed-aux")
class FedAux(Method):
    """A vector learnt by each client says whose models it mixes with (FedAux, Zhuo et al., 2025).

    **Client**. Its model places every node on a line by the cosine with a vector ``a_i`` and adds
    to each node the mean of those near it (:class:`atoll.models.aux_gcn.AuxGCN`). The vector is
    trained with all the rest by the task's loss, so that it comes to stand for the client's data:

        ``min over w_i, a_i, mu_i of L(w_i * mu_i, a_i)``

    with masks ``mu_i`` on weight matrices (not on biases, nor on ``a_i``) that start at one and
    never leave; where ``|mu| < threshold`` the model that is used has zero. **Server**. Mixes whole
    models, vectors included, ``theta_bar_i = sum_j alpha_ij (w_j, a_j)`` with
    ``alpha_i = softmax over j of tau cos(a_i, a_j)``.

    Where the text leaves room or its code differs:

    - The text speaks of a soft sort and a one-dimensional convolution; its formula and all of the
      released variants are the kernel mean. The released kernel is ``[n, n]``; ours is the same
      numbers without it (:mod:`atoll.ops.kernel`).
    - The code's README runs the masked GCN with ``sigma`` 10, its parser's default and the text
      have 1. Its other variants (GraphSAGE layers, no masks: ``masks = false``) are not run there.
      The README's ``--dropout 0.7`` reaches no layer of the masked GCN, whose dropout is 0.5.
    - The vector is compared with ``h`` after its activation and dropout, as in the masked GCN;
      further penalties on masks and on the distance to the model received stand in the code as
      comments, and are left out here.
    - The code sends masks along with the model, and nobody uses them; here they stay.

    ``mix = "uniform"`` lets everybody mix with all alike; without masks that is FedAvg with every
    client counting the same.
    """

    paper = ("fed-aux/non-overlapping",)
    private = PRIVATE | {"mask"}

    model: Model = field(default_factory=AuxGCN)
    tau: float = option(10.0, at_least=0)
    masks: bool = True
    threshold: float = option(1e-3, at_least=0)
    mix: Literal["auxiliary", "uniform"] = "auxiliary"

    tasks = ("nodes", "links")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, AuxGCN):
            raise AtollError(
                f"fed-aux mixes by the auxiliary vector of its model, which "
                f"'{self.model.registered_name}' has not; set model.name=aux-gcn."
            )

    def start(self, info: Info, seed: int) -> Kinds:
        model = replicated(self.initial_model(info, seed), info.clients)
        return {
            "model": model,
            "similarity": {"between": torch.eye(info.clients, dtype=info.dtype)},
        }

    def join(self, client: Client) -> Kinds:
        w = replicated(self.initial_model(client.cohort, client.rng.seed), client.k)
        mu = self.first_mask(w)
        return {"model": w, "mask": mu, "optimizer": self.optimizer.init(joined_trees(w, mu))}

    def first_mask(self, params_K: Params) -> Params:
        """Weights have masks; biases and the vector do not."""
        weights = {name: p for name, p in params_K.items() if p.dim() > 2}
        return {name: torch.ones_like(p) for name, p in weights.items()} if self.masks else {}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        one = {name: p[0] for name, p in server["model"].items()}
        sent = {"model": server["model"]}
        replies = fed.ask("train", each=sent, expect={"model": one})
        S = cosine(replies["model"]["aux"])
        alpha = mixing_weights(S, self.tau if self.mix == "auxiliary" else 0.0)
        mixture = fed.mixed(alpha, replies["model"], server["model"], replies.rows)
        return updated(server, replies.rows, model=mixture, similarity={"between": S})

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        w, mu = client.descend(
            lambda w, mu: client.loss(times(w, mu), training=True),
            {name: p.clone() for name, p in model.items()},
            client.state["mask"],
        )
        kept = {name: m * (m.abs() >= self.threshold).to(m.dtype) for name, m in mu.items()}
        client.state |= {"model": times(w, kept), "mask": mu}
        return Reply(model=w)
