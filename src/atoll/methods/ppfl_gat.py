"""Federated GAT by embedding alignment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Reply, client_step
from atoll.graph import make_graph
from atoll.methods.base import Info, initial_model, methods
from atoll.methods.embedding_alignment import EmbeddingAlignment, public_rows, received
from atoll.models.base import Model
from atoll.models.gat import GAT
from atoll.ops.ragged import segment_mean
from atoll.optimizers.fit import Penalty
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, prefixed, spread, under


@methods.register("ppfl-gat")
@dataclass(frozen=True, kw_only=True)
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
    which only the intermediate layer can have (the last one has one a class), but Algorithm 2
    returns the last layer's. ``represents = "intermediate"`` or ``"output"``. Since a GAT has seen
    the labels of its training nodes, ``judged`` is ``held-out`` here by default.
    """

    private: ClassVar[frozenset[str]] = EmbeddingAlignment.private | {"model"}

    model: Model = field(default_factory=lambda: GAT(hidden=8, heads=2))
    judged: Literal["all", "held-out"] = "held-out"
    beta: float = 1.0
    represents: Literal["intermediate", "output"] = "intermediate"
    common_start: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0:
            raise AtollError(f"method.beta is {self.beta}; it can't be negative.")

    def width(self, info: Info) -> int:
        """Found by embedding a graph of one node."""
        x = np.zeros((1, info.features), dtype=np.float32)
        y, edges = np.zeros(1, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)
        node = make_graph(x, edges, y, classes=info.classes)
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed=0)
        hidden = self.model.intermediate(spread(model, 1), Cohort([node], dtype=info.dtype))
        return int(hidden.shape[1])

    def embeddings(self, cohort: Cohort, state: Tree) -> Tensor:
        params_K = under(state, "model")
        with torch.no_grad():
            if self.represents == "output":
                return self.model.apply(params_K, cohort)
            return self.model.intermediate(params_K, cohort)

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        if self.common_start:
            return self.new_client(cohort, rng)
        own = [self.model.init(cohort.features, cohort.classes, s) for s in rng.streams]
        params_K = {
            name: torch.stack([params[name] for params in own]).to(cohort.dtype) for name in own[0]
        }
        return prefixed("model", params_K) | prefixed("optimizer", self.optimizer.init(params_K))

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        fitted = self.fit(
            under(state, "model"), cohort, state, rng, penalty=self._embedding_loss(cohort, each)
        )
        if not self.exchange:
            return fitted.state, Reply({})
        with torch.no_grad():
            hidden = self.model.intermediate(fitted.params_K, cohort)
        return fitted.state, Reply({"public/vectors": public_rows(hidden, cohort)})

    def _embedding_loss(self, cohort: Cohort, each: Tree) -> Penalty | None:
        """``beta L_emb``, one number a client ``[K]``; zero for a client that nothing reached."""
        averages, rows = received(cohort, each)
        if not len(rows):
            return None

        def loss(params_K: Params) -> Tensor:
            hidden = self.model.intermediate(params_K, cohort)[rows]
            away = 1 - cosine_similarity(hidden, averages, dim=1)
            return self.beta * segment_mean(away, cohort.batch[rows], cohort.k)

        return loss
