"""A check of two tables: every column, every problem, and a config that runs as it is."""

from dataclasses import replace

import numpy as np
import polars
import pytest
from complaints import complaint

from atoll.data import Tables
from atoll.data.check_tables import check_tables
from fraud_table import write_fraud_table

NODES = """Customer No;Salary;Rate;Joined;Region;Code;Notes;Is Churn
0012;1.234,50;12,5;2020-01-05;N;7;;1
0013;2.000,00;3,1;2021-02-05;S;x;;0
0014;n/a;4,0;;S;x;;0
0015;900,00;5,5;2020-01-05;N;y;;1
0016;850,10;5,7;2020-01-05;N;7;;
0017;850,10;6,5;2020-01-05;N;7;;0
"""
EDGES = (
    "caller,callee,w,place\n0012,0013,0.5,here\n0013,0014,2,there\n0016,0012,1,here\n0012,0012,1,\n"
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes two tables and checks them."""
    monkeypatch.chdir(tmp_path)

    def check(nodes=NODES, edges=EDGES, **options):
        (tmp_path / "people.csv").write_text(nodes, encoding="utf-8")
        (tmp_path / "calls.csv").write_text(edges, encoding="utf-8")
        return check_tables("people.csv", "calls.csv", **options)

    return check


def said(check, severity):
    return [problem.text for problem in check.problems if problem.severity == severity]


def loaded(check):
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in check.settings.items()}
    return Tables(**options).load()


def test_everything_is_guessed_and_can_be_loaded(files):
    check = files(owner="Region")
    assert said(check, "error") == []
    assert check.settings == {
        "nodes": "people.csv",
        "edges": "calls.csv",
        "id": "Customer No",
        "label": "Is Churn",
        "source": "caller",
        "target": "callee",
        "owner": "Region",
        "weight": "w",
        "features": ["Salary", "Rate", "Joined", "Code"],
        "categorical": ["Code"],
        "missing": "median",
        "standardise": True,
        "directed": False,
        "separator": ";",
        "decimal": ",",
        "edges_separator": ",",
        "edges_decimal": ".",
    }
    graph = loaded(check)
    assert graph.feature_names == ("Salary", "Rate", "Joined", "Code=7", "Code=x", "Code=y")
    assert sorted(set(graph.weights)) == [0.5, 1, 2]
    assert check.experiment()["partition"] == {"name": "natural"}
    assert check.experiment()["model"] == {"name": "sage"}
    assert "task" not in check.experiment()


def test_one_line_per_column(files):
    lines = {c.column: (c.type, c.missing, c.distinct, c.use) for c in files().columns}
    assert lines["Customer No"] == ("text", 0, 6, "id")
    assert lines["Salary"] == ("number", 1, 4, "feature: number")
    assert lines["Joined"] == ("date", 1, 2, "feature: years since 2000")
    assert lines["Region"] == ("text", 0, 2, "feature: categories")
    assert lines["Notes"] == ("empty", 6, 0, "left out: empty")
    assert lines["Is Churn"] == ("number", 1, 2, "label")
    assert lines["place"] == ("text", 1, 2, "not used")


def test_all_problems_at_once_with_their_counts(files):
    nodes = NODES.replace("0015;", "0014;").replace("5,7", "abc").replace("0017;", ";")
    nodes += "0018;1;2\n0019;1\n"
    edges = EDGES + "0099,0012,-1,\n0098,0012,1,\n,0012,1,\n"
    check = files(nodes, edges, weight="w", owner="Regio")
    errors = "\n".join(said(check, "error"))
    assert not check.usable
    for sentence in (
        "'people.csv': 2 of 8 lines have more or fewer than the 8 fields",
        "'Regio': did you mean 'Region'?",
        "column 'Rate': 1 of 6 entries are no numbers, as the others are (first: 'abc' in line 6)",
        "column 'Customer No': in 1 of 6 rows the id is missing",
        "1 of 6 rows repeat the id of an earlier one (first: '0014' in line 5)",
        "column 'caller': 2 of 7 ends are no node of 'people.csv' (first: '0099' in line 6)",
        "column 'caller': in 1 of 7 rows the id is missing; give every edge two ends",
        "column 'w': in 1 of 7 rows the weight is negative",
    ):
        assert sentence in errors
    assert any("lead from a node to itself" in note for note in said(check, "note"))


def test_edges_to_strangers_are_refused_or_left_out_as_one_says(files):
    edges = EDGES + "0099,0012,1,\n"
    assert "leave the edges out with --drop-unknown" in said(files(edges=edges), "error")[0]
    check = files(edges=edges, drop_unknown=True)
    assert check.usable
    assert check.settings["unknown_ends"] == "drop"
    assert any("1 of 5 ends are no node of" in note for note in said(check, "note"))


def test_files_in_the_wrong_order_or_of_another_graph(files):
    files()
    check = check_tables("calls.csv", "people.csv")
    assert "the nodes come first, then the edges." in said(check, "error")[0]
    assert {column.column for column in check.columns} >= {"caller", "Rate"}
    check = files(edges="caller,callee\np,q\n")
    assert said(check, "error")[0].endswith("refer to; check the files.")


def test_a_file_that_can_not_be_read_does_not_hide_the_other(files, tmp_path):
    files()
    (tmp_path / "torn.csv").write_bytes("id,größe,maß\n1,2,3\n".encode()[:-9] + b"\xff")
    check = check_tables("torn.csv", "gone.csv")
    assert [text.split(";")[0] for text in said(check, "error")] == [
        "'torn.csv' is not UTF-8 text",
        "there is no file 'gone.csv' (data.edges)",
    ]


def test_a_column_called_weight_that_holds_none_is_left_alone(files):
    check = files(edges=EDGES.replace("0.5", "-0.5"))
    assert check.usable
    assert "weight" not in check.settings
    assert any("'w' is not used as weights: 1 of 4" in note for note in said(check, "note"))


def test_thousands_that_might_be_decimals_are_mentioned(files):
    nodes = 'id,label,sum\na,x,"1,234"\nb,y,"2,345"\n'
    check = files(nodes, "source,target\na,b\n")
    assert check.settings["decimal"] == "."
    assert any("in '1,234' the comma is taken to set thousands" in n for n in said(check, "note"))
    assert loaded(check).feature_names == ("sum",)


def test_parquet_is_checked_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    polars.DataFrame(
        {
            "id": [1, 2, 3],
            "label": ["x", "y", None],
            "age": [1.0, None, 3.0],
            "old": [True, False, True],
            "split": ["train", "val", None],
            "vector": [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]],
        }
    ).write_parquet("n.parquet")
    polars.DataFrame({"source": [1, 2], "target": [2, 3]}).write_parquet("e.parquet")
    check = check_tables("n.parquet", "e.parquet")
    assert said(check, "error") == []
    assert check.settings["split"] == "split"
    assert check.experiment()["split"] == {"kind": "public"}
    assert loaded(check).features == 5


@pytest.mark.parametrize("marks", [(",", "."), (";", ","), ("\t", ".")])
def test_the_fraud_table_however_it_is_written(tmp_path, marks):
    separator, decimal = marks
    made = write_fraud_table(tmp_path, accounts=400, separator=separator, decimal=decimal)
    check = check_tables(made.nodes, made.edges, directed=True)
    assert said(check, "error") == []
    chosen = check.settings
    assert (chosen["id"], chosen["label"], chosen["owner"]) == ("account", "fraud", "bank")
    assert (chosen["weight"], chosen["weight_scale"], chosen["missing"]) == (
        "amount",
        "log",
        "median",
    )
    graph = loaded(check)
    plain = write_fraud_table(tmp_path / "plain", accounts=400)
    twin = loaded(check_tables(plain.nodes, plain.edges, directed=True))
    np.testing.assert_array_equal(graph.x, twin.x)
    np.testing.assert_array_equal(graph.weights, twin.weights)
    gaps = sum(column.missing for column in check.columns if column.type == "number")
    assert gaps == made.gaps
    assert int(graph.y.sum()) == made.fraudulent
    assert len(graph.holdings) == 4


def test_the_fraud_table_is_the_same_for_the_same_seed(tmp_path):
    one, two, other = (
        write_fraud_table(tmp_path / name, accounts=200, seed=seed).nodes.read_bytes()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one == two
    assert one != other


def fraud(rare, rows=400, kinds=("yes", "no"), parts="", owners=""):
    """Nodes of which so many are of the first kind, and the edges of a path through all."""
    extra = "".join(f";{name}" for name, text in (("split", parts), ("bank", owners)) if text)
    lines = [f"id;size;fraud{extra}"]
    for n in range(rows):
        more = "".join(f";{text(n)}" for text in (parts, owners) if text)
        kind = kinds[0] if n < rare else kinds[1 + n % (len(kinds) - 1)]
        lines.append(f"{n};{n % 7};{kind}{more}")
    return "\n".join([*lines, ""]), "a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(rows - 1))


def test_a_rare_class_is_weighed_and_measured_and_the_reason_is_said(files):
    check = files(*fraud(39))
    assert check.experiment()["task"] == {"class_weight": "balanced"}
    assert check.experiment()["run"] == {"metric": "pr_auc"}
    why = "\n".join(said(check, "note"))
    assert (
        "the class 'yes' is rare, 39 of 400 labelled nodes: always answering 'no' would score "
        "90.25 % accuracy, so rounds are chosen by pr_auc (run.metric)" in why
    )
    assert "the model is 'sage', which keeps a node's own columns apart" in why
    often = files(*fraud(40)).experiment()
    assert "task" not in often
    assert "run" not in often


def test_a_rare_class_of_many_is_measured_without_ranks(files):
    check = files(*fraud(20, kinds=("yes", "no", "perhaps")))
    assert check.experiment()["run"] == {"metric": "macro_f1"}


def test_a_class_too_rare_to_be_in_validation_leaves_the_metric_to_the_run(files):
    check = files(*fraud(9))
    assert check.experiment()["task"] == {"class_weight": "balanced"}
    assert "run" not in check.experiment()
    assert "choose rounds by pr_auc if validation nodes are of both classes" in "\n".join(
        said(check, "note")
    )


def test_training_nodes_that_the_table_names_say_what_is_rare(files):
    """As in a run: 9 of 100 of all nodes, but 9 of the first 50, which train."""
    check = files(*fraud(9, 100, parts=lambda n: "train" if n < 50 else "val"))
    assert "task" not in check.experiment()
    assert "run" not in check.experiment()

    # 12 of 100, of which 2 of 50 train; they validate at one bank, where nobody else does.
    def parts(n):
        return "train" if n < 2 or 12 <= n < 60 else "val"

    check = files(*fraud(12, 100, parts=parts, owners=lambda n: "north" if n < 12 else "south"))
    assert check.experiment()["task"] == {"class_weight": "balanced"}
    assert "2 of 50 training nodes" in "\n".join(said(check, "note"))
    assert "run" not in check.experiment()
    check = files(*fraud(12, 100, parts=parts, owners=lambda n: ("north", "south")[n % 2]))
    assert check.experiment()["run"] == {"metric": "pr_auc"}


def test_words_for_an_unknown_label_are_mentioned(files):
    nodes, edges = fraud(60, kinds=("yes", "no", "NA"))
    [note] = [text for text in said(files(nodes, edges), "note") if "unknown" in text]
    assert note == (
        "in 170 rows the label is a word for an unknown one (first: 'NA' in line 63) and counts as "
        "a class of its own; empty these entries of 'fraud' if they are unknown."
    )


def test_columns_are_left_out_or_categories_as_one_says(files):
    rows = "".join(f"{n};{n} kg;{n % 7};{n % 2};x\n" for n in range(40))
    edges = "a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(39))
    check = files("id;mass;age;label;shop\n" + rows, edges, leave_out=["mass"], categorical=["age"])
    assert said(check, "error") == []
    assert check.settings["features"] == ["age"]
    assert check.settings["categorical"] == ["age"]
    assert loaded(check).feature_names == tuple(f"age={n}" for n in range(7))
    check = files("id;mass;age;label\n1;2;3;4\n2;2;3;5\n", "a,b\n1,2\n", leave_out=["mas"])
    assert "column of 'people.csv' (--leave-out) 'mas': did you mean 'mass'?" in "\n".join(
        said(check, "error")
    )


@pytest.mark.parametrize(
    ("header", "source", "target"),
    [
        ("nach,von", "von", "nach"),
        ("to,from", "from", "to"),
        ("payee,payer", "payer", "payee"),
        ("receiver_id,other", "other", "receiver_id"),
        ("x,y", "x", "y"),
    ],
)
def test_edges_lead_where_their_ends_names_say(header, source, target, files):
    nodes, _ = fraud(100)
    check = files(nodes, f"{header}\n1,2\n", directed=True)
    assert (check.settings["source"], check.settings["target"]) == (source, target)


def test_counts_that_might_be_ids_are_no_ends(files):
    """Every count is the id of a node, too."""
    nodes, _ = fraud(100)
    edges = "count,one,other\n" + "".join(f"{n % 3},{n},{n + 7}\n" for n in range(50))
    check = files(nodes, edges)
    assert (check.settings["source"], check.settings["target"]) == ("one", "other")


def test_a_column_of_numbers_with_a_unit_is_an_error(files):
    rows = "".join(f"{n};{n} kg;{n % 7};{n % 2}\n" for n in range(40))
    edges = "a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(39))
    check = files("id;mass;age;label\n" + rows, edges)
    [error] = said(check, "error")
    assert "column 'mass': it holds numbers with the unit 'kg' (first: '0 kg' in line 2)" in error
    assert [c.type for c in check.columns if c.column == "mass"] == ["number with a unit"]


def test_dates_that_may_be_read_in_two_ways_are_an_error_also_without_a_check(files):
    rows = "".join(f"{n};{n % 12 + 1:02}/05/2024;{n % 7};{n % 2}\n" for n in range(40))
    edges = "a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(39))
    check = files("id;since;age;label\n" + rows, edges)
    what = "it holds dates that are not written as year-month-day"
    [error] = said(check, "error")
    assert f"column 'since': {what} (first: '01/05/2024' in line 2)" in error
    assert [c.type for c in check.columns if c.column == "since"] == ["date, not ISO"]
    table = Tables(nodes="people.csv", edges="calls.csv", source="a", target="b", separator=";")
    assert what in complaint(replace(table, edges_separator=",").load)


def test_codes_and_names_that_were_meant_to_be_one_are_noted(files):
    rows = "".join(
        f"{n};{1000 + 37 * n % 9000:05};{('north', 'North', 'south ')[n % 3]};{n % 2}\n"
        for n in range(40)
    )
    edges = "a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(39))
    check = files("id;zip;place;label\n" + rows, edges)
    assert check.usable
    notes = said(check, "note")
    assert any("'zip' is a number although 40 of its entries begin with 0" in n for n in notes)
    twins = [n for n in notes if "differ in case or spaces only" in n]
    assert len(twins) == 1
    assert twins[0].endswith(": 'North', 'north'.")


def test_a_table_as_spreadsheets_in_western_europe_write_it(files, tmp_path, caplog):
    rows = "".join(f"ü{n};{n % 7};{('nö', 'jä')[n % 2]}\n" for n in range(40))
    edges = "a,b\n" + "".join(f"ü{n},ü{n + 1}\n" for n in range(39))
    files("id;größe;label\n" + rows, edges)
    (tmp_path / "people.csv").write_bytes(("id;größe;label\n" + rows).encode("cp1252"))
    check = check_tables("people.csv", "calls.csv")
    assert check.usable
    graph = loaded(check)
    assert graph.feature_names == ("größe",)
    assert graph.class_names == ("jä", "nö")
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        "'people.csv' is not UTF-8 text"
    ]


def clinic(columns):
    """Forty patients with further columns, one value per patient."""
    head = ";".join(["id", *columns, "diagnóstico"])
    rows = [
        ";".join([str(n), *(values[n] for values in columns.values()), ("sano", "enfermo")[n % 2]])
        for n in range(40)
    ]
    return "\n".join([head, *rows]) + "\n", "a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(39))


def test_numbers_below_zero_as_accounts_write_them_are_read_and_noted(files):
    balance = [f"({n}.50)" if n % 4 == 0 else f"{n}.50" for n in range(40)]
    check = files(*clinic({"balance": balance}))
    assert said(check, "error") == []
    assert check.settings["label"] == "diagnóstico"
    [note] = [text for text in said(check, "note") if "sign of accounts" in text]
    assert note == (
        "the column 'balance' has 10 numbers with the sign of accounts (first: '(0.50)' in line "
        "2); they are read as negative."
    )
    [profile] = [c for c in check.columns if c.column == "balance"]
    assert (profile.type, profile.use) == ("number", "feature: number")
    check.settings["standardise"] = False
    graph = loaded(check)
    assert graph.x[:5, 0].tolist() == [-0.5, 1.5, 2.5, 3.5, -4.5]


def test_words_for_nothing_known_among_categories_are_noted(files):
    smoker = [("yes", "no", "NA", "no", "-")[n % 5] for n in range(40)]
    check = files(*clinic({"smoker": smoker}))
    assert check.usable
    [note] = [text for text in said(check, "note") if "nothing known" in text]
    assert note == (
        "the column 'smoker' has words for nothing known ('NA' 8 times, '-' 8 times), which count "
        "as names like any other; empty these entries if they are unknown."
    )


def test_a_mixture_that_is_left_out_is_shown(files):
    mixed = [f"{n}" if n % 2 else f"room {n}" for n in range(40)]
    check = files(*clinic({"where": mixed, "age": [str(30 + n) for n in range(40)]}))
    [note] = [text for text in said(check, "note") if "'where'" in text]
    assert note == (
        "the column 'where' is left out: text among numbers. 20 of 40 entries are numbers, 20 "
        "text (first: 'room 0' in line 2)."
    )


def test_columns_that_might_be_owners_or_labels_are_named(files):
    ward = [("north", "south")[n % 3 > 0] for n in range(40)]
    nodes, edges = clinic({"ward": ward, "age": [str(n % 3) for n in range(40)]})
    [note] = [text for text in said(files(nodes, edges), "note") if "--owner" in text]
    assert note == (
        "no column is called like an owner, so the graph is cut into parties by its edges; if a "
        "column says whose each node is, name it with --owner (names are in: ward)."
    )
    check = files(nodes.replace("ward", "hospital").replace("diagnóstico", "found"), edges)
    assert not [text for text in said(check, "note") if "--owner" in text]
    [error] = said(check, "error")
    assert error.endswith("with --label (with few values there are: found, age).")
