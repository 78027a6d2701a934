"""From two CSV files to a trained federation."""

from dataclasses import replace

import numpy as np
import polars
import pytest

import atoll
from atoll.data import Tables
from atoll.experiment.config import describe, resolve


@pytest.fixture
def iris_tables(tmp_path):
    """Three kinds of iris, each flower joined to its neighbours, in two gardens."""
    from sklearn.datasets import load_iris
    from sklearn.neighbors import kneighbors_graph

    measured, kind = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[kind]
    frame = polars.DataFrame(measured, schema=["a", "b", "c", "d"], orient="row")
    nodes = frame.with_columns(
        polars.Series("flower", [f"iris {i}" for i in range(150)]),
        polars.Series("kind", names),
        polars.Series("garden", ["east" if i % 5 < 3 else "west" for i in range(150)]),
    )
    nodes.write_csv(tmp_path / "flowers.csv")
    linked = kneighbors_graph(measured, 4).tocoo()
    polars.DataFrame(
        {"one": [f"iris {i}" for i in linked.row], "other": [f"iris {i}" for i in linked.col]}
    ).write_csv(tmp_path / "similar.csv")
    return Tables(
        nodes=str(tmp_path / "flowers.csv"),
        edges=str(tmp_path / "similar.csv"),
        id="flower",
        label="kind",
        owner="garden",
        source="one",
        target="other",
        standardise=True,
    )


def test_from_two_csv_files_to_a_trained_federation(iris_tables, tmp_path):
    out = tmp_path / "run"
    result = atoll.run(data=iris_tables, partition="natural", rounds=30, out=out)
    assert [client["nodes"] for client in result.per_client] == [90, 60]
    assert result.test_accuracy > 0.8
    written = (out / "config.toml").read_text()
    assert 'name = "tables"' in written
    assert 'owner = "garden"' in written


def test_the_same_tables_under_another_partition(iris_tables, tmp_path):
    result = atoll.run(
        data=iris_tables, partition="random", clients=3, rounds=3, out=tmp_path / "run"
    )
    assert [client["nodes"] for client in result.per_client] == [50, 50, 50]


def test_a_run_on_tables_resumes_from_its_config(iris_tables, tmp_path):
    out = tmp_path / "run"
    done = atoll.run(data=iris_tables, partition="natural", rounds=3, out=out)
    (out / "summary.json").unlink()
    assert atoll.resume(out).test_accuracy == done.test_accuracy


def test_a_config_names_every_option(iris_tables):
    table = describe(replace(resolve({}), data=iris_tables))
    assert table["data"]["name"] == "tables"
    assert resolve({"data": table["data"] | {"features": ["a", "b"]}}).data == replace(
        iris_tables, features=("a", "b")
    )
