"""Federated DeepWalk by embedding alignment."""

from __future__ import annotations

import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.federation.calls import Reply, client_step
from atoll.leaves import Ragged
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.ppfl.downstream import discriminant
from atoll.methods.ppfl.embedding_alignment import EmbeddingAlignment, public_rows, received
from atoll.methods.ppfl.skip_gram import random_walks, skip_gram
from atoll.options import option
from atoll.tasks.nodes import node_scores
from atoll.tree import Kinds


@register("ppfl-deepwalk")
class PpflDeepWalk(EmbeddingAlignment):
    """DeepWalk at each client, public nodes' vectors aligned (PPFL-GNN, Zhang et al., 2023).

    **Client** (Algorithm 1). Of the matrix ``Phi_i [nodes, dimensions]`` the rows of public nodes
    are replaced by the averages ``X_i'`` that arrived, and skip-gram with negative sampling goes
    on from there over new random walks. Only public nodes' vectors are sent; private nodes'
    vectors and all context vectors never are. **Server**: see :class:`EmbeddingAlignment`.

    No labels are used in training, and ``model`` and ``optimizer`` not at all: a node's vector is
    its only parameter. ``epochs`` counts passes over a round's walks. The accuracy and loss of a
    round are those of a linear discriminant that each client fits to its training nodes' vectors.

    The paper gives ``dimensions`` (16) and no other setting. ``walks`` per node, their ``length``
    and the ``window`` are those of DeepWalk's released code, ``negative`` and ``lr`` (falling to
    0.0001 each round) those of word2vec. ``negative = 0`` trains by hierarchical softmax, as
    DeepWalk's authors do. PPFL-GNN's "initial the DeepWalk model with Phi'" says nothing
    of the context vectors: they start each round at zero, as in a new model, unless
    ``keep_contexts``. Nodes without neighbours start no walk; they keep their vectors, which for
    public ones come from the other clients.
    """

    paper = ("ppfl-gnn/table-1",)
    usual_partition = "public-nodes"

    needs_labels = False
    weighs_classes = False
    private = PRIVATE | {"vectors", "contexts"}

    dimensions: int = option(16, at_least=1)
    walks: int = option(10, at_least=1)
    length: int = option(40, at_least=2)
    window: int = option(5, at_least=1)
    negative: int = option(5, at_least=0)
    lr: float = option(0.025, above=0)
    keep_contexts: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_contexts and not self.negative:
            raise AtollError(
                "method.keep_contexts needs negative sampling (method.negative above 0); "
                "hierarchical softmax has a new tree each round, so there is nothing to keep."
            )

    def width(self, info: Info) -> int:
        return self.dimensions

    def embeddings(self, client: Client) -> Tensor:
        vectors: Ragged = client.state["vectors"]["nodes"]
        return vectors.values

    def join(self, client: Client) -> Kinds:
        """Small random vectors, as word2vec starts from; each client has its own."""
        reach, sizes = 0.5 / self.dimensions, client.cohort.sizes
        drawn = [
            of_numpy(stream.uniform(-reach, reach, (size, self.dimensions)))
            for stream, size in zip(client.rng.streams, sizes, strict=True)
        ]
        Phi = torch.cat(drawn).to(client.dtype)
        return {
            "vectors": {"nodes": Ragged(Phi, sizes)},
            "contexts": {"nodes": Ragged(torch.zeros_like(Phi), sizes)},
            **self.chosen(client),
        }

    @client_step
    def train(self, client: Client, public: dict[str, Ragged] | None = None) -> Reply:
        """Algorithm 1, lines 20 to 25."""
        cohort = client.cohort
        Phi, contexts = self.embeddings(client), client.state["contexts"]["nodes"].values
        averages, rows = received(client, public)
        if len(rows):
            Phi = Phi.index_copy(0, rows, averages)
        if not self.keep_contexts:
            contexts = torch.zeros_like(contexts)
        Phi, contexts = self.walked(client, Phi, contexts)
        client.state["vectors"] = {"nodes": Ragged(Phi, cohort.sizes)}
        client.state["contexts"] = {"nodes": Ragged(contexts, cohort.sizes)}
        return Reply(public=public_rows(Phi, client)) if self.exchange else Reply()

    def walked(self, client: Client, Phi: Tensor, contexts: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors and contexts after skip-gram over each client's walks."""
        cohort, sizes = client.cohort, list(client.cohort.sizes)
        parts = (torch.split(Phi, sizes), torch.split(contexts, sizes), client.rng.streams)
        trained = []
        for graph, Phi_k, contexts_k, stream in zip(cohort.graphs, *parts, strict=True):
            walks = random_walks(graph.adjacency, self.walks, self.length, stream)
            found = skip_gram(
                walks,
                Phi_k.float().cpu().numpy(),
                contexts_k.float().cpu().numpy(),
                window=self.window,
                negative=self.negative,
                lr=self.lr,
                epochs=self.epochs,
                rng=stream,
            )
            trained.append([of_numpy(part).to(cohort.dtype) for part in found])
        Phi, contexts = (torch.cat(part) for part in zip(*trained, strict=True))
        return Phi, contexts

    @client_step
    def evaluate(self, client: Client) -> Reply:
        """Score a classifier that each client fits to its training nodes' vectors."""
        cohort = client.cohort
        blocks = torch.split(self.embeddings(client), list(cohort.sizes))
        logits = [
            discriminant(h, of_numpy(g.y), of_numpy(g.train), cohort.classes)
            for h, g in zip(blocks, cohort.graphs, strict=True)
        ]
        return Reply(metric=node_scores(torch.cat(logits), cohort, self.task))
