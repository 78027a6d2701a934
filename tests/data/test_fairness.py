from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from atoll.data.fairness import Bail, GermanCredit, standardised
from atoll.errors import AtollError


def test_numbers_are_kept_or_standardised(
    data_folder: Path, write_npz: Callable[..., Path]
) -> None:
    write_npz(data_folder / "Bail/raw/bail.npz")
    raw = Bail(standardise=False).load()
    assert isinstance(raw.x, np.ndarray)
    assert raw.x[4].tolist() == [0, 5, 5]
    scaled = Bail().load()
    np.testing.assert_allclose(scaled.x.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.x.std(axis=0), 1, rtol=1e-6)


def test_standardised_by_hand() -> None:
    x = sparse.csr_array(np.array([[1.0, 0.1], [3.0, 0.1], [5.0, 0.1]]))
    third = np.sqrt(1.5)
    np.testing.assert_allclose(standardised(x), [[-third, 0], [0, 0], [third, 0]], atol=1e-7)


@pytest.mark.usefixtures("empty_home")
def test_it_lies_nowhere() -> None:
    with pytest.raises(
        AtollError,
        match=r"^german-credit: 'GermanCredit/raw/germancredit.npz' is missing; put it into a",
    ):
        GermanCredit().load()
