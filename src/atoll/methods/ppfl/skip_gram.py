"""DeepWalk: random walks, and skip-gram with negative sampling over them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from atoll.errors import AtollError

_LAST_RATE = 1e-4


def random_walks(
    adjacency: sparse.csr_array, per_node: int, length: int, rng: np.random.Generator
) -> np.ndarray:
    """Uniform walks ``[w, length]`` in random order, ``per_node`` from each node with a neighbour.

    A node without one starts no walk: it would meet nobody.
    """
    start, degree = adjacency.indptr[:-1], np.diff(adjacency.indptr)
    walks = np.empty((per_node * int((degree > 0).sum()), length), dtype=np.int64)
    walks[:, 0] = rng.permutation(np.tile(np.flatnonzero(degree), per_node))
    for step in range(1, length):
        at = walks[:, step - 1]
        turn = (rng.random(len(at)) * degree[at]).astype(np.int64)
        walks[:, step] = adjacency.indices[start[at] + turn]
    return walks


def skip_gram(
    walks: np.ndarray,
    vectors: np.ndarray,
    contexts: np.ndarray,
    *,
    window: int,
    negative: int,
    lr: float,
    epochs: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and context vectors ``[n, d]`` after some passes over the walks (Mikolov, 2013).

    Starts from the ones given; nodes that no walk visits keep theirs. ``negative = 0`` is
    hierarchical softmax, as in DeepWalk itself (Perozzi, 2014): contexts are then the inner nodes
    of a Huffman tree over the visits, which start at zero and are not returned. gensim does the
    work, in single precision, with one worker, so that the result follows from the stream alone.
    The learning rate falls linearly to 0.0001.
    """
    visits = np.bincount(walks.reshape(-1), minlength=len(vectors))
    if not visits.any():
        return vectors, contexts
    tree = negative == 0
    with _quiet("gensim"):
        model = _word2vec()(
            vector_size=vectors.shape[1],
            window=window,
            negative=negative,
            hs=int(tree),
            sg=1,
            sample=0,
            min_count=1,
            alpha=lr,
            min_alpha=min(lr, _LAST_RATE),
            workers=1,
            seed=int(rng.integers(2**31)),
        )
        # gensim takes a whole number for a row when it stores a tree's paths, not for a word.
        word: Any = str if tree else int
        model.build_vocab_from_freq({word(n): int(visits[n]) for n in np.flatnonzero(visits)})
        node = np.array(model.wv.index_to_key).astype(np.int64)
        model.wv.vectors[:] = vectors[node]
        if not tree:
            model.syn1neg[:] = contexts[node]
        names = np.array([word(n) for n in range(len(vectors))], dtype=object)
        model.train(names[walks].tolist(), total_examples=len(walks), epochs=epochs)
    vectors, contexts = vectors.copy(), contexts.copy()
    vectors[node] = model.wv.vectors
    if not tree:
        contexts[node] = model.syn1neg
    return vectors, contexts


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise AtollError(
            "DeepWalk needs gensim, which is not installed; add it with: pip install "
            "'atoll[deepwalk]'"
        ) from None
    return Word2Vec


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without a library's advice on small corpora."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
