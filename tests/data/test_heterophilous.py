from pathlib import Path

import numpy as np
import pytest

from atoll.data.heterophilous import Tolokers
from atoll.errors import AtollError


def write_tolokers(folder: Path, **changed: np.ndarray) -> None:
    """Workers 0 - 1 - 2; split k of the ten trains on worker k mod 3."""
    chosen = np.arange(10)[:, None] % 3
    arrays = {
        "node_features": np.float32([[0.5, 1], [0.25, 0], [1, 1]]),
        "node_labels": np.array([0, 1, 0]),
        "edges": np.array([[0, 1], [1, 2]]),
        "train_masks": chosen == np.arange(3),
        "val_masks": (chosen + 1) % 3 == np.arange(3),
        "test_masks": (chosen + 2) % 3 == np.arange(3),
    }
    path = folder / "tolokers/raw/tolokers.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, **(arrays | changed))  # type: ignore[arg-type]


def test_a_published_split_is_chosen(data_folder: Path) -> None:
    write_tolokers(data_folder)
    for split, expected in ((0, [0, 1, 2]), (4, [1, 2, 0])):
        graph = Tolokers(split=split).load()
        masks = (graph.train, graph.val, graph.test)
        assert [int(np.flatnonzero(mask)[0]) for mask in masks] == expected
    assert graph.edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    np.testing.assert_array_equal(graph.x[0], np.float32([0.5, 1]))


def test_ten_were_published() -> None:
    with pytest.raises(
        AtollError, match=r"data.split is -1; .* at most 9 \(10 splits were published\)"
    ):
        Tolokers(split=-1)


def test_fewer_in_the_file_is_damage(data_folder: Path) -> None:
    write_tolokers(data_folder, val_masks=np.zeros((2, 3), bool))
    with pytest.raises(AtollError, match=r"tolokers.npz' can't be read as .* \(index 9 is out of"):
        Tolokers(split=9).load()


@pytest.mark.usefixtures("real_data")
def test_the_real_splits_are_halves_and_quarters() -> None:
    for split in (0, 9):
        graph = Tolokers(split=split).load()
        assert [int(m.sum()) for m in (graph.train, graph.val, graph.test)] == [5879, 2939, 2940]
