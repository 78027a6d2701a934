"""A path of three nodes whose edges weigh 3 and 1."""

import numpy as np

from atoll.graph import Graph


def weighted_path() -> Graph:
    """0 - 1 weighs 3, 1 - 2 weighs 1."""
    nothing = np.zeros(3, dtype=bool)
    return Graph(
        x=np.eye(3, 2, dtype=np.float32),
        edges=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
        weights=np.array([3.0, 3.0, 1.0, 1.0]),
        y=np.array([0, 1, 0]),
        classes=2,
        train=nothing,
        val=nothing,
        test=nothing,
        ids=np.arange(3),
    )
