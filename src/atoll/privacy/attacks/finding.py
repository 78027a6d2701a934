"""What an attack has found: how right it is, beside what it would be without the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score


@dataclass(frozen=True)
class Finding:
    """One attack by one attacker on one kind of message, over its victims.

    ``score`` is the mean over victims of ``measure``; ``chance`` is that of somebody who guesses,
    ``features_alone`` that of somebody who knows nodes' features (or other sites' nodes, where
    features are what is looked for) and no messages. NaN: there is no such thing.
    """

    attack: str
    attacker: str
    of: str
    measure: str
    score: float
    std: float
    victims: int
    chance: float
    features_alone: float
    round: int

    def row(self) -> dict[str, Any]:
        """Ready for JSON, which has no NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Measured:
    """An attack on one victim."""

    score: float
    features_alone: float
    chance: float = 0.5


def over_victims(
    attack: str, attacker: str, of: str, measure: str, round: int, found: Sequence[Measured]
) -> Finding:
    scores = [one.score for one in found]
    return Finding(
        attack,
        attacker,
        of,
        measure,
        float(np.mean(scores)),
        float(np.std(scores)),
        len(found),
        float(np.mean([one.chance for one in found])),
        float(np.mean([one.features_alone for one in found])),
        round,
    )


def auc(positive: np.ndarray, negative: np.ndarray) -> float:
    """How often a positive one scores above a negative one; ties count half."""
    truth = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
    return float(roc_auc_score(truth, np.concatenate([positive, negative])))


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row ``[n, d], [n, d] -> [n]``; zero where a row is zero."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: np.ndarray = (a * b).sum(1) / np.where(norms > 0, norms, 1.0)
    return products


def units(a: np.ndarray) -> np.ndarray:
    """Rows of length one; rows of zeros stay."""
    norms = np.linalg.norm(a, axis=1, keepdims=True)
    scaled: np.ndarray = a / np.where(norms > 0, norms, 1.0)
    return scaled
