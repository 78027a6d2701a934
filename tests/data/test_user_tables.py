"""A graph from two tables: what is read, and a sentence for everything that can be wrong."""

import json
from dataclasses import replace

import numpy as np
import polars
import pytest
from complaints import complaint

from atoll.data import Tables
from atoll.data.table_fitted import Preprocessing

NODES = """patient,diagnosis,age,sex,hospital,part
p1,ill,30,f,north,train
p2,well,41.5,m,north,val
p3,,28,f,south,
p4,ill,63,,south,test
"""
EDGES = """from,to,weight
p1,p2,0.5
p2,p1,0.5
p3,p4,1.0
p4,p4,2.0
"""
NAMES = {"id": "patient", "label": "diagnosis", "source": "from", "target": "to"}
ALL = NAMES | {"owner": "hospital", "split": "part"}


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    """Writes the tables, as given or as above, and reads them."""
    monkeypatch.chdir(tmp_path)

    def read(nodes=NODES, edges=EDGES, **options):
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        return Tables(nodes="nodes.csv", edges="edges.csv", **(ALL | options)).load()

    return read


def test_ids_labels_features_splits_and_owners(clinic):
    graph = clinic()
    assert graph.ids.tolist() == ["p1", "p2", "p3", "p4"]
    assert graph.class_names == ("ill", "well")
    assert graph.y.tolist() == [0, 1, -1, 0]
    assert graph.feature_names == ("age", "sex=f", "sex=m")
    # No sex is neither.
    assert graph.x.tolist() == [[30, 1, 0], [41.5, 0, 1], [28, 1, 0], [63, 0, 0]]
    assert graph.x.dtype == np.float32
    assert graph.train.tolist() == [True, False, False, False]
    assert graph.val.tolist() == [False, True, False, False]
    assert graph.test.tolist() == [False, False, False, True]
    assert [(h.name, h.nodes.tolist()) for h in graph.holdings] == [
        ("north", [0, 1]),
        ("south", [2, 3]),
    ]
    # Both ways, once each; the loop at p4 is gone.
    assert graph.edges.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
    assert graph.name == "nodes"


def test_directed_edges_keep_their_direction(clinic):
    edges = "from,to\np2,p1\np2,p1\np3,p4\n"
    assert clinic(edges=edges, directed=True).edges.tolist() == [[1, 2], [0, 3]]


def test_parquet_gives_the_same_graph(clinic, tmp_path):
    text = clinic()
    types = {"age": polars.Float64}
    for side in ("nodes", "edges"):
        frame = polars.read_csv(tmp_path / f"{side}.csv", schema_overrides=types)
        frame.write_parquet(tmp_path / f"{side}.parquet")
    typed = Tables(nodes="nodes.parquet", edges="edges.parquet", **ALL).load()
    for array in ("x", "edges", "y", "ids", "train", "val", "test"):
        np.testing.assert_array_equal(getattr(typed, array), getattr(text, array))


def test_whole_number_ids_agree_between_csv_and_parquet(tmp_path):
    polars.DataFrame({"id": [7, 10], "label": [0, 1], "f": [1, 2]}).write_parquet(
        tmp_path / "nodes.parquet"
    )
    (tmp_path / "edges.csv").write_text("source,target\n7,10\n")
    data = Tables(nodes=str(tmp_path / "nodes.parquet"), edges=str(tmp_path / "edges.csv"))
    graph = data.load()
    assert graph.ids.tolist() == ["7", "10"]
    assert graph.edges.tolist() == [[0, 1], [1, 0]]


def test_classes_that_are_numbers_are_sorted_by_size(clinic):
    # 2.0 and 10.0 is how whole numbers look beside gaps.
    nodes = NODES.replace("ill", "10.0").replace("well", "2.0")
    graph = clinic(nodes)
    assert graph.class_names == ("2", "10")
    assert graph.y.tolist() == [1, 0, -1, 1]


def test_nan_is_an_unknown_label(clinic):
    assert clinic(NODES.replace("p3,,", "p3,NaN,")).y.tolist() == [0, 1, -1, 0]


def test_class_names_fix_the_numbering(clinic):
    graph = clinic(class_names=("well", "ill", "dead"))
    assert graph.classes == 3
    assert graph.y.tolist() == [1, 0, -1, 1]


def test_chosen_features_come_in_the_order_asked_for(clinic):
    graph = clinic(features=("sex", "age"))
    assert graph.feature_names == ("sex=f", "sex=m", "age")


def test_numbers_as_categories(clinic):
    nodes = NODES.replace("age", "ward").replace("41.5", "9").replace("63", "10")
    graph = clinic(nodes, features=("ward",), categorical=("ward",))
    assert graph.feature_names == ("ward=9", "ward=10", "ward=28", "ward=30")
    assert graph.x.argmax(axis=1).tolist() == [3, 0, 2, 1]


def test_standardised_numbers(clinic):
    # Ages 30, 40, 20, 30: mean 30, deviation sqrt(50). Categories and constants: 0 and 1 stay.
    nodes = NODES.replace("41.5", "40").replace("28", "20").replace("63", "30")
    nodes = "\n".join(
        line + (",same" if n == 0 else ",0.1") for n, line in enumerate(nodes.splitlines())
    )
    alone = {"owner": "", "split": "", "features": ("age", "sex", "same")}
    graph = clinic(nodes, standardise=True, **alone)
    np.testing.assert_allclose(graph.x[:, 0], np.array([0, 10, -10, 0]) / np.sqrt(50), rtol=1e-6)
    assert graph.x[:, 1].tolist() == [1, 0, 1, 0]
    assert graph.x[:, 3].tolist() == [0, 0, 0, 0]


TEAMS = """id,label,size,team
a,0,2,red
b,1,4,red
c,0,99,red
d,1,10,blue
e,0,30,blue
f,1,,blue
g,0,-7,blue
"""


def test_scales_and_fillings_are_those_of_the_partys_own_training_nodes(tmp_path):
    """A drawn split: red trains on 2 and 4 (mean 3, deviation 1), blue on 10 and 30 (20, 10)."""
    (tmp_path / "nodes.csv").write_text(TEAMS)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nd,e\n")
    files = {"nodes": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv")}
    data = Tables(**files, owner="team", standardise=True, missing="mean")
    train = np.array([True, True, False, True, True, False, False])
    graph = data.fitted(replace(data.load(), train=train))
    np.testing.assert_allclose(graph.x[:, 0], [-1, 1, 96, -1, 1, 0, -2.7], rtol=1e-6)
    kept = Preprocessing.of_json(json.loads(json.dumps(data.preprocessing(train))), tmp_path)
    again = kept.encode(data.node_table(), ["red"] * 3 + ["blue"] * 4)
    np.testing.assert_array_equal(again, graph.x)
    # Whose the row is makes the difference; a stranger's scale is the mean of both: 11.5 and 5.5.
    green = kept.encode(data.node_table(), ["green"] * 7)
    np.testing.assert_allclose(green[:2, 0], [-9.5 / 5.5, -7.5 / 5.5], rtol=1e-6)


def test_no_test_node_moves_what_is_fitted(tmp_path):
    """Whatever stands in rows outside training, the training rows' features stay as they are."""
    (tmp_path / "edges.csv").write_text("source,target\na,b\nd,e\n")
    found = []
    for size in ("99", "100000"):
        (tmp_path / "nodes.csv").write_text(TEAMS.replace("99", size))
        data = Tables(nodes=str(tmp_path / "nodes.csv"), edges=str(tmp_path / "edges.csv"),
                      owner="team", standardise=True, missing="median")  # fmt: skip
        train = np.array([True, True, False, True, True, False, False])
        whole = data.load()
        graph = data.fitted(replace(whole, train=train))
        found.append(graph.x[train])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("old", "new", "column", "line", "what"),
    [
        ("p3,", "p1,", "patient", 4,
         "the id 'p1' stands in line 2 already; give every node one row."),
        ("p3,", ",", "patient", 4, "the id is missing; give every node one."),
        ("28", "", "age", 4,
         "the number is missing; fill it in, drop the row or leave the column out, or have "
         "data.missing fill it."),
        ("28", "NaN", "age", 4,
         "the number is missing; fill it in, drop the row or leave the column out, or have "
         "data.missing fill it."),
        ("28", "n/a", "age", 4,
         "the number is missing; fill it in, drop the row or leave the column out, or have "
         "data.missing fill it."),
        ("28", "old", "age", 4,
         "'old' stands in a column that also holds numbers (30 in line 2); correct it, or list the "
         "column in data.categorical."),
        ("28", "inf", "age", 4, "the number is infinite; correct it or drop the row."),
        ("28", "-1e300", "age", 4, "1e+300 is too large; scale the column."),
        ("south,test", ",test", "hospital", 5, "the owner is missing; give every node one."),
        ("test", "tset", "part", 5, "'tset' is no split; write train, val, test or nothing."),
        ("south,\n", "south,val\n", "part", 4,
         "the node is in val but has no label; leave its split empty or label it."),
    ],
)  # fmt: skip
def test_a_wrong_cell_is_named(clinic, old, new, column, line, what):
    assert complaint(clinic, NODES.replace(old, new)) == (
        f"'nodes.csv', column '{column}', line {line}: {what}"
    )


@pytest.mark.parametrize(
    ("old", "new", "column", "line", "what"),
    [
        ("p3,p4", "p3,p9", "to", 4,
         "'p9' is no node of 'nodes.csv'; add it there or drop the edge."),
        ("p3,p4", "P3,p4", "from", 4,
         "'P3' is no node of 'nodes.csv'; add it there or drop the edge."),
        ("p3,p4", "p3,", "to", 4, "the id is missing; give every edge two ends."),
    ],
)  # fmt: skip
def test_a_wrong_edge_is_named(clinic, old, new, column, line, what):
    assert complaint(clinic, NODES, EDGES.replace(old, new)) == (
        f"'edges.csv', column '{column}', line {line}: {what}"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "diagnose"}, "(data.label) 'diagnose': did you mean 'diagnosis'?"),
        ({"id": "patients"}, "(data.id) 'patients': did you mean 'patient'?"),
        ({"owner": "hospitals"}, "(data.owner) 'hospitals': did you mean 'hospital'?"),
        ({"split": "parts"}, "(data.split) 'parts': did you mean 'part'?"),
        ({"features": ("aeg",)}, "(data.features) 'aeg': did you mean 'age'?"),
        ({"categorical": ("sxe",)}, "(data.categorical) 'sxe': did you mean 'sex'?"),
    ],
)  # fmt: skip
def test_an_unknown_column_of_the_nodes(clinic, options, said):
    assert complaint(clinic, **options) == f"unknown column of 'nodes.csv' {said}"


def test_no_column_of_the_default_name(clinic):
    assert complaint(clinic, label="label") == (
        "'nodes.csv' has no column 'label'; set data.label to the one that plays its part (there "
        "is: patient, diagnosis, age, sex, hospital, part)."
    )
    assert complaint(clinic, source="source").startswith("'edges.csv' has no column 'source'; ")


def test_an_unknown_column_of_the_edges(clinic):
    assert complaint(clinic, source="form") == (
        "unknown column of 'edges.csv' (data.source) 'form': did you mean 'from'?"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"features": ("age", "diagnosis")},
         "data.features lists 'diagnosis', which data.label names already; take it out of the "
         "features."),
        ({"features": ("age", "age")}, "data.features lists 'age' twice; list it once."),
        ({"owner": "diagnosis"},
         "data.label and data.owner both name the column 'diagnosis'; name two."),
        ({"target": "from"},
         "data.source and data.target both name the column 'from'; an edge needs two."),
        ({"label": ""}, "data.label is empty; set it to the name of a column."),
        ({"separator": ";;"},
         "data.separator is ';;'; it must be one ASCII character, such as , or ; or \"\\t\"."),
        ({"features": ("age",), "categorical": ("sex",)},
         "the categorical column 'sex' is not among the features of 'nodes.csv'; add it to "
         "data.features, or make it no category."),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other(clinic, options, said):
    assert complaint(clinic, **options) == said


def test_labels_that_are_no_classes(clinic):
    nodes = NODES.replace("ill", "0.37").replace("well", "1")
    assert complaint(clinic, nodes) == (
        "'nodes.csv', column 'diagnosis', line 2: 0.37 is no class; labels are text or whole "
        "numbers, empty where unknown."
    )


def test_a_label_outside_the_classes(clinic):
    assert complaint(clinic, class_names=("ill", "sick")) == (
        "'nodes.csv', column 'diagnosis', line 3: 'well' is none of the classes ill, sick; correct "
        "it, or add it to data.class_names."
    )


def test_no_labels_at_all(clinic):
    nodes = NODES.replace("ill", "").replace("well", "").replace("train", "")
    nodes = nodes.replace("val", "").replace("test", "")
    assert complaint(clinic, nodes) == (
        "'nodes.csv', column 'diagnosis': no node has a label; label some to have what to learn."
    )


def test_an_empty_feature_column(clinic):
    nodes = NODES.replace(",f,", ",,").replace(",m,", ",,")
    assert complaint(clinic, nodes) == (
        "'nodes.csv', column 'sex': it is empty; fill it, or leave it out of data.features."
    )


def test_no_features(clinic):
    assert complaint(clinic, "patient,diagnosis,hospital,part\np1,a,n,\n") == (
        "'nodes.csv' has no feature column; add at least one, such as each node's degree."
    )


def test_two_features_of_one_name(clinic):
    nodes = NODES.replace("age,sex", "sex=f,sex")
    assert complaint(clinic, nodes) == (
        "'nodes.csv': two features would be called 'sex=f'; rename one."
    )
