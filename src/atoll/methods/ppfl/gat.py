"""Federated GAT by embedding alignment."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from atoll.federation.calls import Reply, client_step
from atoll.leaves import Ragged
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.ppfl.embedding_alignment import (
    EmbeddingAlignment,
    Judged,
    public_rows,
    received,
)
from atoll.models.base import Model
from atoll.models.gat import GAT
from atoll.ops.ragged import segment_mean
from atoll.optimizers.fit import Penalty
from atoll.options import option
from atoll.tree import Kinds, Params, replicated


@register("ppfl-gat")
class PpflGat(EmbeddingAlignment):
    """A GAT at each client, public nodes' hidden embeddings aligned (PPFL-GNN, Zhang et al., 2023).

    **Client** (Algorithm 2). Trains ``L_label + beta L_emb`` (eq. 9): the task's loss, and
    ``L_emb = mean over public nodes u of 1 - cos(H(u), X'(u))`` (eq. 8), which draws the
    intermediate layer's output ``H`` towards the averages ``X'`` that arrived. Then it sends
    ``H`` of its public nodes; no model ever leaves it. **Server**: see
    :class:`EmbeddingAlignment`.

    The paper takes ``beta`` 1 for Cora and 0.75 for CiteSeer. A round of its is a whole local
    training (it converges "within ten iterations"), so ``epochs`` should be large; the model is
    kept from round to round. Clients draw their first models independently, unless
    ``common_start``. Any model works that has an intermediate layer
    (:meth:`Model.intermediate`); ``H`` is taken without dropout.

    What is judged in the end the paper does not say clearly: its embeddings have 16 dimensions,
    which only the intermediate layer can have (the last one has one per class), but Algorithm 2
    returns the last layer's. ``represents = "intermediate"`` or ``"output"``. Since a GAT learns
    from the labels of its training nodes, ``judged`` is ``held-out`` here by default.
    """

    paper = ("ppfl-gnn/table-2",)
    usual_partition = "public-nodes"

    private = PRIVATE | {"model"}

    model: Model = field(default_factory=lambda: GAT(hidden=8, heads=2))
    judged: Judged = "held-out"
    # Its classifier goes on learning long after the spaces have come as near as they will.
    patience: int = option(0, at_least=0)
    beta: float = option(1.0, at_least=0)
    represents: Literal["intermediate", "output"] = "intermediate"
    common_start: bool = False

    def width(self, info: Info) -> int:
        return self.model.intermediate_width(info.features, info.classes)

    def embeddings(self, client: Client) -> Tensor:
        model = client.state["model"]
        with torch.no_grad():
            if self.represents == "output":
                return self.model.apply(model, client.cohort)
            return self.model.intermediate(model, client.cohort)

    def join(self, client: Client) -> Kinds:
        cohort, rng = client.cohort, client.rng
        if self.common_start:
            start = replicated(self.initial_model(cohort, rng.seed), client.k)
            return self.trainable(start) | self.chosen(client)
        own = [self.model.init(cohort.features, cohort.classes, s) for s in rng.streams]
        start = {n: torch.stack([one[n] for one in own]).to(client.dtype) for n in own[0]}
        return self.trainable(start) | self.chosen(client)

    @client_step
    def train(self, client: Client, public: dict[str, Ragged] | None = None) -> Reply:
        """Algorithm 2, lines 21 to 23, and what is sent of it (lines 4 to 6)."""
        w = client.fit(client.state["model"], penalty=self.embedding_loss(client, public))
        if not self.exchange:
            return Reply()
        with torch.no_grad():
            H = self.model.intermediate(w, client.cohort)
        return Reply(public=public_rows(H, client))

    def embedding_loss(self, client: Client, public: dict[str, Ragged] | None) -> Penalty | None:
        """``beta L_emb``, one number per client ``[K]``; zero for a client that nothing reached."""
        averages, rows = received(client, public)
        cohort = client.cohort
        if not len(rows):
            return None

        def loss(w: Params) -> Tensor:
            H = self.model.intermediate(w, cohort)[rows]
            away = 1 - cosine_similarity(H, averages, dim=1)
            return self.beta * segment_mean(away, cohort.batch[rows], cohort.k)

        return loss
