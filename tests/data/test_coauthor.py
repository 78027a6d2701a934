import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atoll.data.coauthor import CoauthorCS, CoauthorPhysics
from atoll.graph import dense

LOAD_PHYSICS = """
from atoll.data.base import datasets
graph = datasets["coauthor-physics"]().load()
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(graph.nodes, graph.features, int(peak.split()[1]))
"""


def test_keywords_count_once_unless_asked(
    data_folder: Path, write_npz: Callable[..., Path]
) -> None:
    write_npz(data_folder / "CS/raw/ms_academic_cs.npz")
    assert dense(CoauthorCS(normalise=False).load().x)[0].tolist() == [1, 1, 0]
    assert dense(CoauthorCS(normalise=False, binary=False).load().x)[0].tolist() == [3, 1, 0]
    np.testing.assert_allclose(dense(CoauthorCS().load().x)[0], [0.5, 0.5, 0])


@pytest.mark.usefixtures("torch_geometric")
def test_addresses() -> None:
    assert [
        d.address(d.files()[0]).rpartition("/")[2] for d in (CoauthorCS(), CoauthorPhysics())
    ] == [
        *("ms_academic_cs.npz", "ms_academic_phy.npz"),
    ]


@pytest.mark.usefixtures("real_data")
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_physics_loads_within_a_gigabyte() -> None:
    """Dense, its features alone would take 1.16 GB.

    The peak is the kernel's own for the process that loads; what ``getrusage`` reports may be
    inherited from the process that started it.
    """
    for _ in ("from the raw file", "from the cache"):
        done = subprocess.run(
            [sys.executable, "-c", LOAD_PHYSICS],
            env=dict(os.environ),
            capture_output=True,
            text=True,
            check=True,
        )
        nodes, features, kilobytes = map(int, done.stdout.split())
        assert (nodes, features) == (34493, 8415)
        assert kilobytes < 500_000
