"""Federated DeepWalk by embedding alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Reply, client_step
from atoll.methods.base import PRIVATE, Info, methods
from atoll.methods.embedding_alignment import EmbeddingAlignment, public_rows, received
from atoll.ops.downstream import discriminant
from atoll.ops.skip_gram import random_walks, skip_gram
from atoll.rng import CohortRng
from atoll.tasks.nodes import node_scores
from atoll.tree import Ragged, Tree


@methods.register("ppfl-deepwalk")
@dataclass(frozen=True, kw_only=True)
class PpflDeepWalk(EmbeddingAlignment):
    """DeepWalk at each client, public nodes' vectors aligned (PPFL-GNN, Zhang et al., 2023).

    **Client** (Algorithm 1). Of the matrix ``Phi_i [nodes, dimensions]`` the rows of public nodes
    are replaced by the averages ``X_i'`` that arrived, and skip-gram with negative sampling goes
    on from there over new random walks. Only public nodes' vectors are sent; private nodes'
    vectors and all context vectors never are. **Server**: see :class:`EmbeddingAlignment`.

    No labels are used in training, and ``model`` and ``optimizer`` not at all: a node's vector is
    its only parameter. ``epochs`` counts passes over a round's walks. The accuracy and loss of a
    round are those of a linear discriminant that each client fits to its training nodes' vectors.

    The paper gives ``dimensions`` (16) and no other setting. ``walks`` a node and their ``length``
    and the ``window`` are those of DeepWalk's released code, ``negative`` and ``lr`` (falling to
    0.0001 each round) those of word2vec. ``negative = 0`` trains by hierarchical softmax, as
    DeepWalk's authors do. PPFL-GNN's "initial the DeepWalk model with Phi'" says nothing
    of the context vectors: they start each round at zero, as in a new model, unless
    ``keep_contexts``. Nodes without neighbours start no walk; they keep their vectors, which for
    public ones come from the other clients.
    """

    needs_labels: ClassVar[bool] = False
    private = PRIVATE | {"vectors", "contexts"}

    dimensions: int = 16
    walks: int = 10
    length: int = 40
    window: int = 5
    negative: int = 5
    lr: float = 0.025
    keep_contexts: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"dimensions": 1, "walks": 1, "length": 2, "window": 1, "negative": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise AtollError(
                    f"method.{name} is {getattr(self, name)}; ppfl-deepwalk needs at least "
                    f"{smallest}."
                )
        if self.keep_contexts and not self.negative:
            raise AtollError(
                "method.keep_contexts needs negative sampling (method.negative above 0); "
                "hierarchical softmax has a new tree each round, so there is nothing to keep."
            )
        if self.lr <= 0:
            raise AtollError(f"method.lr is {self.lr}; it must be positive.")

    def width(self, info: Info) -> int:
        return self.dimensions

    def embeddings(self, cohort: Cohort, state: Tree) -> Tensor:
        return _vectors(state)

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        """Small random vectors, as word2vec starts from; each client has its own."""
        reach = 0.5 / self.dimensions
        drawn = [
            torch.from_numpy(stream.uniform(-reach, reach, (size, self.dimensions)))
            for stream, size in zip(rng.streams, cohort.sizes, strict=True)
        ]
        vectors = torch.cat(drawn).to(cohort.dtype)
        return {
            "vectors/nodes": Ragged(vectors, cohort.sizes),
            "contexts/nodes": Ragged(torch.zeros_like(vectors), cohort.sizes),
        }

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        vectors, contexts = _vectors(state), _contexts(state)
        averages, rows = received(cohort, each)
        if len(rows):
            vectors = vectors.index_copy(0, rows, averages)
        if not self.keep_contexts:
            contexts = torch.zeros_like(contexts)
        vectors, contexts = self._walked(vectors, contexts, cohort, rng)
        state = {
            "vectors/nodes": Ragged(vectors, cohort.sizes),
            "contexts/nodes": Ragged(contexts, cohort.sizes),
        }
        return state, Reply(
            {"public/vectors": public_rows(vectors, cohort)} if self.exchange else {}
        )

    def _walked(
        self, vectors: Tensor, contexts: Tensor, cohort: Cohort, rng: CohortRng
    ) -> tuple[Tensor, Tensor]:
        """Vectors and contexts after each client's walks."""
        trained = []
        parts = zip(
            cohort.graphs,
            torch.split(vectors, list(cohort.sizes)),
            torch.split(contexts, list(cohort.sizes)),
            rng.streams,
            strict=True,
        )
        for graph, vectors_k, contexts_k, stream in parts:
            walks = random_walks(graph.adjacency, self.walks, self.length, stream)
            found = skip_gram(
                walks,
                vectors_k.float().numpy(),
                contexts_k.float().numpy(),
                window=self.window,
                negative=self.negative,
                lr=self.lr,
                epochs=self.epochs,
                rng=stream,
            )
            trained.append([torch.from_numpy(part).to(cohort.dtype) for part in found])
        new_vectors, new_contexts = (torch.cat(part) for part in zip(*trained, strict=True))
        return new_vectors, new_contexts

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Score a classifier that each client fits to its training nodes' vectors."""
        logits = [
            discriminant(h, torch.from_numpy(g.y), torch.from_numpy(g.train), cohort.classes)
            for h, g in zip(
                torch.split(_vectors(state), list(cohort.sizes)), cohort.graphs, strict=True
            )
        ]
        return state, Reply(node_scores(torch.cat(logits), cohort))


def _vectors(state: Tree) -> Tensor:
    leaf = state["vectors/nodes"]
    assert isinstance(leaf, Ragged)
    return leaf.values


def _contexts(state: Tree) -> Tensor:
    leaf = state["contexts/nodes"]
    assert isinstance(leaf, Ragged)
    return leaf.values
