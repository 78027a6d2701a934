"""CSV and Parquet files, and the sentences for those that can't be read."""

import polars
import pytest
from complaints import complaint

from atoll.data.table_files import read_table
from atoll.errors import AtollError


def csv(tmp_path, content, name="nodes.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def nodes(path):
    return read_table(path, "nodes")


def test_numbers_are_numbers_and_text_columns_stay_as_written(tmp_path):
    path = csv(tmp_path, "id,age,sex\n007,3.5,f\n008,4,m\n")
    table = read_table(path, "nodes", text=["id", "absent"])
    assert table.frame.to_dict(as_series=False) == {
        "id": ["007", "008"],
        "age": [3.5, 4.0],
        "sex": ["f", "m"],
    }
    assert not table.typed


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path):
    table = read_table(csv(tmp_path, "\ufeffid,age\r\na,1\r\n"), "nodes")
    assert table.frame.to_dict(as_series=False) == {"id": ["a"], "age": [1]}


def test_separators(tmp_path):
    assert read_table(csv(tmp_path, "id;a\nx;1\n"), "nodes", separator=";").frame["a"][0] == 1
    assert read_table(csv(tmp_path, "id\ta\nx\t1\n", "nodes.tsv"), "nodes").frame["a"][0] == 1


def test_a_path_is_taken_literally(tmp_path):
    path = csv(tmp_path, "id\na\n", "nodes[1]*.csv")
    csv(tmp_path, "id\nwrong\n", "nodes1x.csv")
    assert read_table(path, "nodes").frame["id"].to_list() == ["a"]


def test_places_are_lines_of_the_file(tmp_path):
    # Line 2 and 3 are one record with a quoted line break, line 4 is blank, line 5 has no fields.
    table = read_table(csv(tmp_path, 'id,note\na,"one\ntwo"\n\n,\nb,three\nc,four\n'), "nodes")
    assert table.frame["id"].to_list() == ["a", "b", "c"]
    assert [table.place(row) for row in range(3)] == ["line 2", "line 6", "line 7"]


def test_places_in_parquet_are_rows_from_one(tmp_path):
    polars.DataFrame({"id": ["a", "b"]}).write_parquet(tmp_path / "nodes.parquet")
    table = read_table(tmp_path / "nodes.parquet", "nodes")
    assert table.typed
    assert table.place(1) == "row 2"


def test_parquet_categories_are_text(tmp_path):
    kinds = {"a": polars.Categorical, "b": polars.Enum(["x", "y"])}
    frame = polars.DataFrame({"a": ["x", "y"], "b": ["x", "y"]}, schema=kinds)
    frame.write_parquet(tmp_path / "nodes.parquet")
    read = read_table(tmp_path / "nodes.parquet", "nodes").frame
    assert read.dtypes == [polars.String, polars.String]


def test_no_path():
    assert complaint(nodes, "") == (
        "data.nodes is not given; set it to the CSV or Parquet file of the nodes."
    )


def test_wrong_path(tmp_path):
    path = tmp_path / "noeds.csv"
    assert complaint(nodes, path) == f"there is no file '{path}' (data.nodes); check the path."


def test_a_folder(tmp_path):
    assert complaint(nodes, tmp_path) == (
        f"'{tmp_path}' (data.nodes) is a folder; name the CSV or Parquet file in it."
    )


def test_another_kind_of_file(tmp_path):
    path = csv(tmp_path, "{}", "nodes.json")
    assert complaint(nodes, path) == (
        f"'{path}' (data.nodes) is neither CSV nor Parquet by its name; give a file that ends in "
        f".csv, .tsv or .parquet."
    )


def test_csv_called_parquet(tmp_path):
    said = complaint(nodes, csv(tmp_path, "id\na\n", "nodes.parquet"))
    assert said.startswith(f"'{tmp_path / 'nodes.parquet'}' can't be read as Parquet (")
    assert said.endswith("); write it anew, or end its name in .csv if it is CSV.")


def test_parquet_called_csv(tmp_path):
    polars.DataFrame({"id": ["a"]}).write_parquet(tmp_path / "nodes.csv")
    assert complaint(nodes, tmp_path / "nodes.csv") == (
        f"'{tmp_path / 'nodes.csv'}' is not text; end its name in .parquet if it is Parquet, or "
        f"write it as CSV."
    )


@pytest.mark.parametrize(
    "content", [b"id,name\na,M\x81ller\n", "id,näme\na,Müller\n".encode() + b"b,\xff\n"]
)
def test_neither_utf8_nor_what_spreadsheets_write(tmp_path, content):
    path = csv(tmp_path, content)
    assert complaint(nodes, path) == f"'{path}' is not UTF-8 text; write it anew as UTF-8."


def test_western_text_is_read_as_such_and_said_once_per_version(tmp_path, caplog):
    path = csv(tmp_path, "id,näme\na,Müller \n".encode("cp1252") + b"b,5 \x80\n")
    assert nodes(path).frame["näme"].to_list() == ["Müller ", "5 €"]
    assert nodes(path).frame.columns == ["id", "näme"]
    assert len(caplog.records) == 1
    csv(tmp_path, "id,näme\na,Möller\n")
    assert nodes(path).frame["näme"].to_list() == ["Möller"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("content", ["", "\n\n", "  \n"])
def test_an_empty_file(tmp_path, content):
    path = csv(tmp_path, content)
    assert complaint(nodes, path) == f"'{path}' is empty; its first line must name the columns."


@pytest.mark.parametrize("content", ["id,age\n", "id,age\n\n,\n"])
def test_a_table_without_rows(tmp_path, content):
    path = csv(tmp_path, content)
    assert complaint(nodes, path) == (
        f"'{path}' has no rows below its header; give a table with nodes."
    )
    assert read_table(path, "edges", may_be_empty=True).frame.columns == ["id", "age"]


def test_an_unnamed_column_such_as_a_row_index(tmp_path):
    path = csv(tmp_path, ",id\n0,a\n")
    assert complaint(nodes, path) == (
        f"'{path}', line 1: column 1 has no name; name it, or write the file without its row index."
    )


def test_two_columns_of_one_name(tmp_path):
    path = csv(tmp_path, "id,age,age\na,1,2\n")
    assert complaint(nodes, path) == f"'{path}', line 1: two columns are called 'age'; rename one."


@pytest.mark.parametrize(
    ("content", "line", "fields"),
    [
        ("id,age\na,1\nb,2,3\n", 3, 3),  # too many fields
        ("id,age\na,1\n\nb\n", 4, 1),  # too few: not an empty age
        ('id,age\na,1\n"b,2\nc,3\n', 3, 1),  # a quote that never ends swallows the rest
    ],
)
def test_lines_of_another_length(tmp_path, content, line, fields):
    path = csv(tmp_path, content)
    assert complaint(nodes, path) == (
        f"'{path}', line {line} has {fields} fields, but the header names 2 columns; correct the "
        f"line (text with a separator in it needs quotes)."
    )


@pytest.mark.parametrize(("mark", "written"), [(";", '";"'), ("\t", '"\\t"'), ("|", '"|"')])
def test_columns_set_apart_otherwise(tmp_path, mark, written):
    path = csv(tmp_path, f"id{mark}age\na{mark}1,5\n")
    assert complaint(nodes, path) == (
        f"'{path}', line 1 is one column when read with ',' between columns; set separator (for "
        f"edges: edges_separator) to {written}, or let 'atoll check' find it."
    )


def test_one_column_is_a_table(tmp_path):
    for name in ("id", '"name, first"'):
        table = read_table(csv(tmp_path, f"{name}\na\nb\n"), "nodes")
        assert table.frame[:, 0].to_list() == ["a", "b"]


def test_a_quote_without_end_in_the_last_column(tmp_path):
    path = csv(tmp_path, 'id,age\na,1\nb,"2\nc,3\n')
    said = complaint(nodes, path)
    assert said.startswith(f"'{path}' can't be read as CSV (")
    assert said.endswith("); write it anew as UTF-8 text.")


def test_unknown_columns_suggest_the_nearest(tmp_path):
    table = read_table(csv(tmp_path, "id,diagnosis\na,1\n"), "nodes")
    with pytest.raises(AtollError) as problem:
        table.column("diagnosi", "label")
    assert str(problem.value) == (
        f"unknown column of '{tmp_path / 'nodes.csv'}' (data.label) 'diagnosi': did you mean "
        f"'diagnosis'?"
    )


def test_a_wide_table_lists_only_the_nearest_columns(tmp_path):
    header = ",".join(f"column{i}" for i in range(500))
    table = read_table(csv(tmp_path, f"{header}\n{','.join('1' * 500)}\n"), "nodes")
    with pytest.raises(AtollError, match=r"there is: (\w+, ){4}\w+\.$"):
        table.column("zzz", "label")
