"""Representations kept near the global model's, and away from the client's last ones."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from atoll.errors import AtollError
from atoll.federation.calls import Replies
from atoll.methods.base import register
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.ops.ragged import segment_mean
from atoll.optimizers.fit import Penalty
from atoll.options import option
from atoll.tree import Kinds, Params


@register("moon")
class Moon(GlobalModel):
    """FedAvg with a model-contrastive loss (MOON, Li et al., 2021).

    Client i minimises ``L_i(w) + mu L_con(w)``. With z a node's representation by w, z_glob by the
    model it was sent and z_prev by the model it trained last,
    ``L_con = -log(e_glob / (e_glob + e_prev))`` with ``e = exp(cos(z, .) / tau)``, averaged over
    nodes. ``mu = 0`` is FedAvg. In the first round z_prev is z_glob and the term a
    constant. What is sent is what FedAvg sends, and the server needs sums only.

    The representation is the output of the layer before the last (:meth:`Model.intermediate`): of
    the default GCN the second convolution's, before the activation. A model without such a layer
    (``sgc``, ``appnp``, ``module``) gives its class scores.

    Departures and readings:

    - The paper puts a projection head of two layers on top of the representation; the model is
      used here as it is. OpenFGL's port has none either.
    - ``nodes``: the paper averages over the examples of a batch, which are all labelled. The term
      needs no labels, and here ``all`` of a client's nodes count, as in OpenFGL's port; ``train``
      are the labelled ones alone.
    - Representations have no dropout, so that z differs from z_glob for what was learnt alone.
    - ``mu`` was chosen from 0.1, 1, 5 and 10 in the paper, whose code has 1 and ``tau`` 0.5. Local
      training begins at z = z_glob, where all that the term does is to push away from z_prev: with
      one step per round 1 is too much (docs/general-baselines.md), and the default is 0.1.
    - A client that sat rounds out compares with the model it trained last, however old.
    """

    mu: float = option(0.1, at_least=0)
    tau: float = option(0.5, above=0)
    nodes: Literal["all", "train"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes == "train" and self.task.registered_name == "links":
            raise AtollError("no node is labelled where links are predicted; set method.nodes=all.")

    def local_training(self, client: Client, model: Params) -> Params:
        penalty = self.contrastive_loss(client, model) if self.mu else None
        return client.fit(model, penalty=penalty)

    def contrastive_loss(self, client: Client, model: Params) -> Penalty:
        """``mu L_con``, one number per client ``[K]``."""
        cohort, k = client.cohort, client.k
        rows = cohort.rows("train") if self.nodes == "train" else None
        owner = cohort.batch if rows is None else cohort.batch[rows]

        def z(w: Params) -> Tensor:
            found = self.model.intermediate(w, cohort)
            return found if rows is None else found[rows]

        with torch.no_grad():
            z_glob = z({n: p.contiguous() for n, p in model.items()})
            z_prev = z(client.state["model"]).clone()

        def loss(w: Params) -> Tensor:
            now = z(w)
            near, far = cosine_similarity(now, z_glob), cosine_similarity(now, z_prev)
            return self.mu * segment_mean(softplus((far - near) / self.tau), owner, k)

        return loss

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        usual = super().remarks(server, concluded)
        return usual if self.mu else ["method.mu is 0, so this was FedAvg.", *usual]
