"""The built-in data are the same everywhere."""

import subprocess
import sys

import numpy as np

from atoll.data.builtin import nearest_neighbour_graph

COUNT = """
import hashlib, atoll, torch
from atoll.data.builtin import Digits
torch.set_num_threads(int({threads}))
print(hashlib.sha256(Digits().load().edges.tobytes()).hexdigest())
"""


def test_of_equally_near_nodes_the_first_is_joined():
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    graph = nearest_neighbour_graph(corners, np.zeros(4, dtype=np.int64), 1, "corners")
    joined = {frozenset(map(int, edge)) for edge in graph.edges.T}
    assert joined == {frozenset(e) for e in ((0, 1), (0, 2), (1, 3))}


def test_neighbours_do_not_depend_on_threads():
    digests = {
        subprocess.run(
            [sys.executable, "-c", COUNT.format(threads=n)],
            capture_output=True, text=True, check=True, env={"OMP_NUM_THREADS": str(n)},
        ).stdout
        for n in (1, 2)
    }  # fmt: skip
    assert len(digests) == 1
