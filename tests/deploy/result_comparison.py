"""When two runs count as the same."""

import torch

from atoll.leaves import Ragged
from atoll.tasks.metrics import RANKING
from atoll.tree import subtree


def assert_same_result(one, other, tolerance=1e-9):
    """The server's final state and every score of every round and client."""
    a, b = subtree(one.parameters, "server"), subtree(other.parameters, "server")
    assert set(a) == set(b)
    for name, leaf in a.items():
        left, right = (x.values if isinstance(x, Ragged) else x for x in (leaf, b[name]))
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, msg=name)
    assert one.history.shape == other.history.shape
    for column in one.history.columns:
        left, right = (r.history[column].fill_null(-1).to_torch().double() for r in (one, other))
        if column.endswith(RANKING):  # a simulation makes these for the rounds that may matter
            both = (left >= 0) & (right >= 0)
            left, right = left[both], right[both]
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, msg=column)
