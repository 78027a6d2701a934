"""Feature columns: Parquet's types, vectors, and many categories."""

import numpy as np
import polars
import pytest
from complaints import complaint
from scipy import sparse

from atoll.data import Tables


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Reads a node table, one edge between its first two nodes."""
    monkeypatch.chdir(tmp_path)

    def load(columns):
        polars.DataFrame(columns).write_parquet("n.parquet")
        first, second = columns["id"][:2]
        (tmp_path / "e.csv").write_text(f"source,target\n{first},{second}\n")
        return Tables(nodes="n.parquet", edges="e.csv").load()

    return load


def test_booleans_lists_of_numbers_and_text_that_is_digits(read):
    graph = read(
        {
            "id": ["a", "b"],
            "label": [1, None],
            "smokes": [True, False],
            "vector": [[1.0, 2.0], [3.0, 4.0]],
            "zip": ["12", "34"],
        }
    )
    # Text in Parquet is meant as text, digits or not.
    assert graph.feature_names == (
        "smokes=false", "smokes=true", "vector[0]", "vector[1]", "zip=12", "zip=34",
    )  # fmt: skip
    assert graph.x.tolist() == [[0, 1, 1, 2, 1, 0], [1, 0, 3, 4, 0, 1]]


def test_arrays_of_fixed_length(read):
    vectors = polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int8, 2))
    assert read({"id": ["a", "b"], "label": [0, 1], "v": vectors}).x.tolist() == [[1, 2], [3, 4]]


def test_many_categories_are_sparse(read):
    n = 300
    towns = [f"town {i % 100}" for i in range(n)]
    graph = read({"id": range(n), "label": [i % 2 for i in range(n)], "town": towns})
    assert sparse.issparse(graph.x)
    assert (graph.x.shape, graph.x.nnz, graph.x.dtype) == ((n, 100), n, np.float32)


def test_a_text_of_its_own_in_every_row_is_no_category(read):
    n = 1001
    names = [f"name {i}" for i in range(n)]
    assert complaint(read, {"id": range(n), "label": [i % 2 for i in range(n)], "name": names}) == (
        "'n.parquet', column 'name': it holds 1001 different texts, more than the 1000 that can be "
        "categories; leave it out by listing the feature columns in data.features."
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [1.0, None],
            "the number is missing; fill it in, drop the row or leave the column out, or have "
            "data.missing fill it.",
        ),
        (
            [[1.0], None],
            "the number is missing; fill it in, drop the row or leave the column out, or have "
            "data.missing fill it.",
        ),
        ([[1.0, 2.0], [3.0]], "the list has 1 numbers, others have 2; give every node as many."),
        ([[1.0], [float("inf")]], "the number is infinite; correct it or drop the row."),
    ],
)
def test_a_wrong_cell_of_parquet_is_named_by_its_row(read, values, said):
    assert complaint(read, {"id": ["a", "b"], "label": ["x", "y"], "f": values}) == (
        f"'n.parquet', column 'f', row 2: {said}"
    )


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("id", "column 'id': it holds Float64; ids are text or whole numbers."),
        ("label", "column 'label': it holds Date; only text, numbers and booleans can be names."),
        ("born", "column 'born': it holds Time; features are numbers, text, booleans or lists of "
         "numbers: convert it, or leave it out of data.features."),
    ],
)  # fmt: skip
def test_columns_of_a_type_that_means_nothing_here(read, column, said):
    columns = {"id": ["a", "b"], "label": ["x", "y"], "born": [1, 2]}
    date = polars.Series(["2020-01-01", "2020-01-02"]).str.to_date()
    time = polars.Series(["10:00", "11:00"]).str.to_time("%H:%M")
    columns[column] = {"id": [0.5, 1.5], "label": date, "born": time}[column]
    assert complaint(read, columns) == f"'n.parquet', {said}"
