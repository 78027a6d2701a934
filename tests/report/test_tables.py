from types import SimpleNamespace

import pytest

from atoll.report.tables import joining, percent, size


def result(*accuracies):
    method = SimpleNamespace(registered_name="fed-avg")
    clients = [{"client": k, "test_accuracy": a} for k, a in enumerate(accuracies)]
    return SimpleNamespace(
        metric="accuracy", per_client=clients, experiment=SimpleNamespace(method=method)
    )


def test_joining_counts_clients():
    line = joining(result(0.5, 0.5, 0.5, 0.5, None), result(0.6, 0.4, 0.5, 0.7, 0.9))
    assert "better than training alone for 2 of 4 clients (1 worse, 1 the same)" in line


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (62_700_000, "62.7 MB")]
)
def test_sizes_are_for_people(count, text):
    assert size(count) == text


def test_percent_of_nothing_is_a_dash():
    assert percent(None) == percent(float("nan")) == "-"
    assert percent(0.12345) == "12.35"
