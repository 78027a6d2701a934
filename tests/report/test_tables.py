from types import SimpleNamespace

import pytest

from atoll.report.tables import comparison, joining, percent, size


def result(*accuracies):
    method = SimpleNamespace(registered_name="fed-avg")
    clients = [{"client": k, "test_accuracy": a} for k, a in enumerate(accuracies)]
    return SimpleNamespace(
        metric="accuracy", per_client=clients, experiment=SimpleNamespace(method=method)
    )


def test_joining_counts_clients():
    line = joining(result(0.5, 0.5, 0.5, 0.5, None), result(0.6, 0.4, 0.5, 0.7, 0.9))
    assert "better than training alone for 2 of 4 clients (1 worse, 1 the same)" in line


def test_a_comparison_has_one_row_per_method_with_std_over_clients():
    part = SimpleNamespace(registered_name="patients", rounds=3, seed=0)
    method = SimpleNamespace(registered_name="fed-avg")
    experiment = SimpleNamespace(data=part, partition=part, run=part, method=method)
    one = SimpleNamespace(
        experiment=experiment, metric="accuracy", clients=2, test_score=0.5, best_round=3,
        seconds_per_round=0.0123, bytes_up=10, bytes_down=2000,
        test_scores=lambda: [0.4, 0.6], std_over_clients=lambda: 0.1, figures={},
    )  # fmt: skip
    table = comparison([one])
    shown = {str(column.header): list(column.cells) for column in table.columns}
    assert shown == {
        "method": ["fed-avg"],
        "test accuracy": ["50.00"],
        "std over clients": ["10.00"],
        "worst client": ["40.00"],
        "best round": ["3"],
        "ms per round": ["12.3"],
        "sent up": ["10 B"],
        "sent down": ["2.0 kB"],
    }


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (62_700_000, "62.7 MB")]
)
def test_sizes_are_for_people(count, text):
    assert size(count) == text


def test_percent_of_nothing_is_a_dash():
    assert percent(None) == percent(float("nan")) == "-"
    assert percent(0.12345) == "12.35"
