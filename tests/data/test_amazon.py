from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atoll.data.amazon import Computers, Photo
from atoll.graph import dense

Write = Callable[..., Path]


def test_options(data_folder: Path, write_npz: Write) -> None:
    write_npz(data_folder / "Photo/raw/amazon_electronics_photo.npz")
    largest = Photo().load()
    assert largest.ids.tolist() == [0, 1, 2]
    np.testing.assert_allclose(dense(largest.x)[0], [0.75, 0.25, 0])
    plain = Photo(largest_component=False, normalise=False).load()
    assert plain.nodes == 5
    np.testing.assert_array_equal(dense(plain.x)[0], [3, 1, 0])


@pytest.mark.usefixtures("torch_geometric")
def test_addresses() -> None:
    for dataset in (Computers(), Photo()):
        (file,) = dataset.files()
        assert dataset.address(file).startswith("https://")
        assert dataset.address(file).endswith(f"/amazon_electronics_{dataset.folder.lower()}.npz")
