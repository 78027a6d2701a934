"""What the masks of two clients have in common."""

import numpy as np
import pytest
import torch

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.reproduction.studies.shared_parameters import (
    SharedParameters,
    extreme_pairs,
    extreme_shares,
    kept,
)


def settings(**method):
    return resolve(
        {
            "data": {"name": "patients"},
            "partition": {"name": "random", "clients": 3},
            "model": {"name": "gcn", "hidden": 4},
            "method": {"name": "fed-pub", "l1": 0.9, "threshold": 0.97} | method,
            "run": {"rounds": 3},
        }
    )


def test_pairs_by_their_labels():
    labels = np.array([[9, 1, 0], [0, 1, 9], [8, 2, 0], [1, 3, 6]])
    assert extreme_pairs(labels) == ((0, 2), (0, 1))


def test_entries_of_all_masks_in_a_row():
    masks = {
        "a": torch.tensor([[[0.2, -0.6]], [[1.0, 0.5]]]),
        "b": torch.tensor([[[0.4]], [[0.6]]]),
    }
    assert kept(masks, 0.5).tolist() == [[False, True, False], [True, True, True]]


def test_shares_are_those_of_the_threshold():
    study = SharedParameters()
    findings = study.findings(settings())
    found = findings.figures
    assert study.figure(findings, "contrast") == found["similar"] - found["dissimilar"]
    assert study.figure(findings, "contrast@0.3") == 0
    assert 0 < found["kept"] < 1
    assert found["kept"] == found["kept@0.97"]
    assert found["similar@0.3"] == found["kept@0.3"] == 1  # three steps of 0.01 from one
    assert found["similar_of_all"] <= found["similar"] <= 1


def test_without_masks_there_is_nothing_to_share():
    with pytest.raises(AtollError, match="masks"):
        SharedParameters().findings(settings(masks=False))


def test_shares_of_what_one_client_keeps_are_taken_over_all_ordered_pairs():
    kept_K = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)
    # Of client 0's four: two and one; of client 1's two: both and none; of client 2's: one, none.
    assert extreme_shares(kept_K) == (0.0, 1.0)
    assert extreme_shares(kept_K[:2]) == (0.5, 1.0)
