"""Small parties that one can reason about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from atoll.graph import Graph, make_graph


def community_parties(
    sizes: tuple[int, ...] = (19, 25, 14, 31, 22, 16),
    classes: int = 3,
    features: int = 24,
    dense: bool = False,
    seed: int = 0,
    shared: int = 0,
) -> list[Graph]:
    """Parties of different sizes with noisy sparse words per class and mostly inner edges.

    The first ``shared`` nodes of all parties are the same entities: the same id, class and words,
    with links of its own at each party.
    """
    rng = np.random.default_rng(seed)
    parties: list[Graph] = []
    common_y, common_words = np.zeros(0, dtype=int), np.zeros((0, features), dtype=bool)
    for client, n in enumerate(sizes):
        y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
        y[: len(common_y)] = common_y
        words = rng.random((n, features)) < 0.06
        words |= (np.arange(features) % classes == y[:, None]) & (rng.random((n, features)) < 0.25)
        words[: len(common_y)] = common_words
        common_y, common_words = y[:shared], words[:shared]
        same = y[:, None] == y
        edges = np.argwhere(np.triu(rng.random((n, n)) < np.where(same, 0.3, 0.03), 1)).T
        x = words.astype(np.float32)
        graph = make_graph(
            x if dense else sparse.csr_array(x),
            edges,
            y,
            classes=classes,
            ids=np.array([f"{'all' if i < shared else client}-{i}" for i in range(n)]),
            name=f"party {client}",
        )
        fold = np.arange(n) % 3
        fold[:classes] = 0
        parties.append(replace(graph, train=fold == 0, val=fold == 1, test=fold == 2))
    return parties
