"""Numbers as tables write them, and what becomes of gaps."""

import numpy as np
import polars
import pytest
from complaints import complaint

from atoll.data import Parties, Tables
from atoll.data.table_numbers import comma_numbers, parse_numbers
from atoll.data.table_units import common_unit

NODES = """id;label;owner;part;pay;since
a;x;north;train;1.200,5;2000-01-01
b;y;north;train;800;2001-01-01
c;x;north;test;;2000-01-01 12:00
d;y;south;train;n/a;2000-01-01
e;x;south;test;3;
"""
EDGES = "source,target\na,b\nc,d\n"
READ = {"separator": ";", "edges_separator": ",", "decimal": ",", "owner": "owner", "split": "part"}


@pytest.fixture
def staff(tmp_path, monkeypatch):
    """Writes the two tables and reads them."""
    monkeypatch.chdir(tmp_path)

    def read(nodes=NODES, edges=EDGES, **options):
        (tmp_path / "nodes.csv").write_text(nodes, encoding="utf-8")
        (tmp_path / "edges.csv").write_text(edges, encoding="utf-8")
        return Tables(nodes="nodes.csv", edges="edges.csv", **(READ | options)).load()

    return read


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("1.5", "", 1.5),
        ("1,5", "", None),
        ("1,5", ",", 1.5),
        ("1.234,5", ",", 1234.5),
        ("1.234", ",", 1234.0),
        ("1.5", ",", None),
        ("1,234", ".", 1234.0),
        ("1,234,567.25", ".", 1234567.25),
        ("12,34", ".", None),
        ("1 234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        (" -3,5e2 ", ",", -350.0),
        (",5", ",", 0.5),
        ("", ",", None),
        ("A1", ",", None),
        ("(12.5)", "", -12.5),
        (" ( 1.234,50 ) ", ",", -1234.5),
        ("1,234-", ".", -1234.0),
        ("\u22127", "", -7.0),
        ("(-7)", "", None),
        ("(seven)", "", None),
        ("7-8", "", None),
    ],
)
def test_decimal_marks_and_thousands(text, decimal, number):
    assert parse_numbers(polars.Series([text]), decimal).to_list() == [number]


def test_what_looks_like_a_number_with_a_comma():
    values = polars.Series(["1,5", "1,234", "1.234,5", "7", "1.5", "a,b", "2020,", None])
    assert comma_numbers(values).to_list() == [True, True, True] + [False] * 5


def test_gaps_are_filled_from_the_partys_own_training_nodes(staff):
    graph = staff(missing="mean")
    assert graph.feature_names == ("pay", "since")
    # The north's mean is that of its two training nodes; the south has one number, a test node's.
    np.testing.assert_allclose(graph.x[:, 0], [1200.5, 800, 1000.25, 3, 3])
    assert graph.x[4, 1] == 0.0


def test_an_indicator_says_where_the_gaps_were(staff):
    graph = staff(missing="indicator", standardise=True)
    assert graph.feature_names == ("pay", "pay missing", "since", "since missing")
    assert graph.x[:, 1].tolist() == [0, 0, 1, 1, 0]
    assert graph.x[:, 3].tolist() == [0, 0, 0, 0, 1]


def test_without_owners_the_gaps_are_everybodys(staff):
    nodes = NODES.replace("north", "all").replace("south", "all")
    assert staff(nodes, missing="median", owner="owner").x[2, 0] == np.float32(1000.25)
    features = ("pay",)
    assert staff(missing="median", owner="", split="", features=features).x[2, 0] == 800


def test_gaps_are_errors_unless_something_is_said(staff):
    assert "line 4: the number is missing" in complaint(staff)


def test_a_party_without_any_number(staff):
    nodes = NODES.replace("test;3;", "test;;")
    said = complaint(staff, nodes, missing="median")
    assert "the party that has line 5 has no number there to take the median of" in said
    assert staff(nodes, missing="indicator").x[3:, 0].tolist() == [0, 0]


def test_numbers_with_commas_never_become_categories_silently(staff):
    said = complaint(staff, decimal="", missing="median", features=("pay",), edges_decimal=".")
    assert "entries look like numbers with a comma" not in said
    nodes = NODES.replace("800", "800,0").replace("test;3;", "test;3,0;")
    said = complaint(staff, nodes, decimal="")
    assert "column 'pay': 3 of 3 entries look like numbers with a comma" in said
    assert "('1.200,5' in line 2); set data.decimal" in said
    graph = staff(nodes, decimal="", features=("pay",), categorical=("pay",))
    assert "pay=800,0" in graph.feature_names


def test_weights_have_the_edge_tables_decimal_mark(staff):
    edges = "source|target|w\na|b|1,5\nb|c|1.000,0\n"
    marks = {"edges_separator": "|", "missing": "median", "weight": "w", "features": ("since",)}
    assert staff(edges=edges, **marks).weights.tolist() == [1.5, 1.5, 1000, 1000]
    said = complaint(staff, edges=edges, **(marks | {"decimal": "."}))
    assert "(decimal commas: set data.decimal)" in said


def test_parties_fill_their_gaps_alone(tmp_path):
    for party, ages in (("north", "30\nb,y,\nc,x,50"), ("south", "7\ne,x,\nf,y,7")):
        (tmp_path / party).mkdir()
        first = "a" if party == "north" else "d"
        (tmp_path / party / "nodes.csv").write_text(f"id,label,age\n{first},x,{ages}\n")
        (tmp_path / party / "edges.csv").write_text("source,target\n")
    graph = Parties(folder=str(tmp_path), missing="median").load()
    assert graph.x[:, 0].tolist() == [30, 40, 50, 7, 7, 7]


def test_a_separator_is_one_character(staff):
    assert "data.edges_separator is ';;'; it must be one" in complaint(staff, edges_separator=";;")


@pytest.mark.parametrize(
    ("entries", "unit"),
    [
        (["12 kg", "7.5 kg", None, "100kg"], "kg"),
        (["€ 5", "€1,200.50", "€ 7"], "€"),
        (["30%", "4.5 %", "n/a", "0%"], "%"),
        (["5 EUR", "6 EUR"], "EUR"),
        (["EUR 5", "EUR 6"], "EUR"),
        (["20 m/s", "-3 m/s"], "m/s"),
        (["1a", "1b", "2a", "2b"], ""),
        (["5 kg", "5 kg"], ""),
        (["AC-17", "AC-18"], ""),
        (["30-39", "40-49"], ""),
        (["(30 kg)", "40 kg"], "kg"),
        (["red", "blue"], ""),
        (["2020-01-01", "2021-01-01"], ""),
    ],
)
def test_units_of_numbers(entries, unit):
    assert common_unit(polars.Series(entries)) == unit


def test_numbers_with_a_unit_are_refused_unless_they_are_listed(staff):
    nodes = NODES.splitlines()
    rows = [nodes[0] + ";mass", *(f"{line};{n + 1} kg" for n, line in enumerate(nodes[1:]))]
    text = "\n".join(rows) + "\n"
    said = complaint(lambda: staff(text, missing="median", features=("mass",)))
    assert "column 'mass'" in said
    assert "numbers with the unit 'kg' ('1 kg' in line 2)" in said
    assert "mass=1 kg" in staff(text, features=("mass",), categorical=("mass",)).feature_names
