"""How well k-means on embeddings finds the classes again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Agreement(NamedTuple):
    """How much one client's clusters agree with its classes, over ``scored`` of its nodes.

    ``nmi`` is the normalised mutual information, ``ari`` the adjusted Rand index; both are 1 where
    clusters are the classes, and about 0 where they have nothing to do with each other (``nmi`` a
    little above it). Not a number where fewer than two nodes are scored.
    """

    clusters: int
    scored: int
    nmi: float
    ari: float


def clustered(
    embedding: np.ndarray, y: np.ndarray, scored: np.ndarray, seed: int
) -> tuple[np.ndarray, Agreement]:
    """Each node's cluster ``[n]`` by k-means on all embeddings ``[n, d]``, and its agreement with
    the classes ``y [n]`` (-1 unknown) of the nodes that are ``scored [n]``.

    There are as many clusters as the client has classes, or nodes, if those are fewer.
    """
    from sklearn.cluster import KMeans

    known = y >= 0
    k = max(1, min(len(np.unique(y[known])), len(np.unique(embedding, axis=0))))
    means = KMeans(n_clusters=k, n_init=10, random_state=seed).fit(embedding.astype(np.float64))
    found: np.ndarray = means.labels_.astype(np.int64)
    chosen = known & scored
    if chosen.sum() < 2:
        return found, Agreement(k, int(chosen.sum()), float("nan"), float("nan"))
    nmi, ari = agreement(y[chosen], found[chosen])
    return found, Agreement(k, int(chosen.sum()), nmi, ari)


def agreement(classes: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """Normalised mutual information and adjusted Rand index of two divisions ``[n]``.

    ``NMI = 2 I(Y; C) / (H(Y) + H(C))``. ``ARI`` is the number of pairs that both put together,
    less what chance would give, over the largest such difference (Hubert and Arabie, 1985).
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    nmi = float(normalized_mutual_info_score(classes, clusters))
    return nmi, float(adjusted_rand_score(classes, clusters))
