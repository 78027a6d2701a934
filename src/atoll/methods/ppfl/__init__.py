"""PPFL-GNN: embeddings of public nodes, by DeepWalk or by a GAT, aligned by the server."""

from atoll.methods.ppfl.deepwalk import PpflDeepWalk
from atoll.methods.ppfl.embedding_alignment import EmbeddingAlignment
from atoll.methods.ppfl.gat import PpflGat

__all__ = ["EmbeddingAlignment", "PpflDeepWalk", "PpflGat"]
