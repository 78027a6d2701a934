import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.data.base import datasets
from atoll.data.citation_full import CoraML, Dblp
from atoll.graph import dense


def test_weights_are_kept_on_request(data_folder: Path, write_npz: Callable[..., Path]) -> None:
    write_npz(data_folder / "dblp/raw/dblp.npz")
    assert dense(Dblp(normalise=False).load().x)[1].tolist() == [0, 1, 0]
    assert dense(Dblp(normalise=False, binary=False).load().x)[1].tolist() == [0, 2, 0]


@pytest.mark.usefixtures("torch_geometric")
def test_addresses() -> None:
    assert CoraML().address(CoraML().files()[0]).endswith("/cora_ml.npz")


@pytest.mark.usefixtures("torch_geometric")
@pytest.mark.parametrize(
    ("name", "source", "theirs"),
    [
        ("cora-ml", "CitationFull", "cora_ml"),
        ("dblp", "CitationFull", "dblp"),
        ("amazon-photo", "Amazon", "Photo"),
    ],
)
def test_torch_geometric_reads_the_same(
    name: str, source: str, theirs: str, real_data: Path, tmp_path: Path
) -> None:
    from torch_geometric import datasets as sources

    shutil.copytree(real_data / theirs / "raw", tmp_path / theirs / "raw")
    other = getattr(sources, source)(str(tmp_path), theirs)[0]
    ours = datasets[name](largest_component=False, normalise=False).load()
    assert (sparse.csr_array(other.x.numpy()) != ours.x).nnz == 0
    np.testing.assert_array_equal(ours.edges, other.edge_index.numpy())
    np.testing.assert_array_equal(ours.y, other.y.numpy())
