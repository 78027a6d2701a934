"""Figures read in other rounds than the one with the best mean validation."""

import numpy as np
import polars
import pytest

from atoll.errors import AtollError
from atoll.reproduction.studies.base import Findings, studies
from atoll.reproduction.studies.run import at_own_best


def found(augmented):
    curves = {
        "round": np.array([1, 2, 3, 4]),
        "val_accuracy": np.array([90.0, 50.0, 70.0, 60.0]),
        "test_accuracy": np.array([80.0, 51.0, 71.0, 61.0]),
    }
    return Findings({"augmented_round": augmented, "test_accuracy": 80.0}, curves, 1)


@pytest.mark.parametrize(("augmented", "expected"), [(0, 80.0), (1, 71.0), (3, 61.0), (4, 61.0)])
def test_the_best_validation_after_that_round_chooses(augmented, expected):
    study = studies["run"]()
    assert study.figure(found(augmented), "test_accuracy>augmented_round") == expected


def test_unknown_figures_are_named():
    with pytest.raises(AtollError, match="test_f1"):
        studies["run"]().figure(found(1), "test_f1>augmented_round")
    with pytest.raises(AtollError, match="merged_round"):
        studies["run"]().figure(found(1), "test_accuracy>merged_round")


def test_scores_on_the_whole_graph_are_read_where_there_are_some():
    """Validation on clients' own nodes chooses, among the rounds that have been tested."""
    curves = {
        "round": np.array([1, 2, 3, 4]),
        "val_accuracy": np.array([90.0, 60.0, 80.0, 70.0]),
        "test_weighted_whole": np.array([50.0, 51.0, np.nan, 53.0]),
        "test_weighted_accuracy": np.array([10.0, 11.0, 12.0, 13.0]),
    }
    found = Findings({"augmented_round": 1.0}, curves, 1)
    study = studies["run"]()
    assert study.figure(found, "test_weighted_whole>augmented_round") == 53.0
    assert study.figure(found, "test_weighted_accuracy>augmented_round") == 12.0


def test_every_client_at_its_own_best_validation():
    """The first has it in round 1, the second in rounds 2 and 3, of which the first one counts; the
    third has nothing to be tested on."""
    history = polars.DataFrame(
        {
            "round": [1, 1, 1, 2, 2, 2, 3, 3, 3],
            "client": [0, 1, 2] * 3,
            "val_accuracy": [0.9, 0.1, 1.0, 0.5, 0.8, 1.0, 0.7, 0.8, 1.0],
            "test_accuracy": [0.6, 0.2, None, 1.0, 0.4, None, 1.0, 1.0, None],
        }
    )
    assert at_own_best(history, "accuracy") == pytest.approx((0.6 + 0.4) / 2)
    assert np.isnan(at_own_best(history.filter(polars.col("client") == 2), "accuracy"))
