"""Parties' folders made by hand, or written and tampered with."""

import os
from dataclasses import replace

import numpy as np
import polars
import pytest
from complaints import complaint
from party_examples import same, wheel
from scipy import sparse

from atoll.data import Columns, Parties, load_party, write_parties
from atoll.errors import AtollError

NORTH = {
    "nodes.csv": "id,label,age,sex\np1,ill,30,f\np2,well,41,m\np3,,50,f\n",
    "edges.csv": "source,target\np1,p2\np2,p3\n",
}
SOUTH = {
    "nodes.csv": "id,label,age,sex\np3,ill,55,x\np4,dead,60,f\n",
    "edges.csv": "source,target\np3,p4\n",
}


@pytest.fixture
def by_hand(tmp_path, monkeypatch):
    """Makes the folders north and south, with files changed, added or (None) left out."""
    monkeypatch.chdir(tmp_path)

    def make(**changed):
        for name, files in {"north": NORTH, "south": SOUTH}.items():
            folder = tmp_path / "p" / name
            folder.mkdir(parents=True)
            for file, content in (files | changed.get(name, {})).items():
                if content is not None:
                    (folder / file).write_text(content)
        return Parties(folder="p")

    return make


def test_folders_made_by_hand(by_hand):
    whole = by_hand().load()
    assert whole.ids.tolist() == ["p1", "p2", "p3", "p4"]
    # Classes and categories are those of all parties.
    assert whole.class_names == ("dead", "ill", "well")
    assert whole.feature_names == ("age", "sex=f", "sex=m", "sex=x")
    assert whole.y.tolist() == [1, 2, 1, 0]
    # The whole has p3 as the first party has it.
    assert whole.x[2].tolist() == [50, 1, 0, 0]
    north, south = (whole.held(holding) for holding in whole.holdings)
    assert [holding.name for holding in whole.holdings] == ["north", "south"]
    # Each party keeps its own features of p3, and north does not know its label.
    assert north.x[2].tolist() == [50, 1, 0, 0]
    assert south.x[0].tolist() == [55, 0, 0, 1]
    assert north.y.tolist() == [1, 2, -1]
    assert south.y.tolist() == [1, 0]
    assert north.edges.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert south.edges.tolist() == [[0, 1], [1, 0]]


def test_a_split_of_the_whole_leaves_a_party_what_it_knows(by_hand):
    whole = by_hand().load()
    every = np.ones(4, dtype=bool)
    north = replace(whole, train=every).held(whole.holdings[0])
    assert north.train.tolist() == [True, True, False]


def test_splits_of_the_parties_survive(by_hand):
    data = replace(
        by_hand(
            north={"nodes.csv": "id,label,age,part\np1,a,1,train\np2,b,2,val\np3,a,3,\n"},
            south={"nodes.csv": "id,label,age,part\np3,a,3,test\np4,b,4,train\n"},
        ),
        split="part",
    )
    whole = data.load()
    assert whole.train.tolist() == [True, False, False, True]
    assert whole.test.tolist() == [False, False, True, False]
    north, south = (whole.held(holding) for holding in whole.holdings)
    # South tests on p3; north knows its label but leaves it out.
    assert north.test.tolist() == [False, False, False]
    assert north.y.tolist() == [0, 1, 0]
    assert south.test.tolist() == [True, False]


def test_two_splits_for_one_node(by_hand):
    data = by_hand(
        north={"nodes.csv": "id,label,age,part\np1,a,1,\np2,b,1,\np3,a,3,train\n"},
        south={"nodes.csv": "id,label,age,part\np3,a,3,test\np4,b,4,train\n"},
    )
    assert complaint(replace(data, split="part").load) == (
        "the party 'north' has the node 'p3' in train, the party 'south' in test; put it into the "
        "same split in both."
    )


def test_a_party_made_by_hand_alone(by_hand):
    by_hand()
    south = load_party("p/south")
    assert south.class_names == ("dead", "ill")
    agreed = load_party("p/south", Columns(class_names=("ill", "well", "dead")))
    assert agreed.y.tolist() == [0, 2]


def test_an_agreement_in_party_toml_makes_alone_and_together_equal(by_hand):
    agreed = (
        'class_names = ["ill", "well", "dead"]\n[categories]\nsex = ["x", "m", "f", "unknown"]\n'
    )
    data = by_hand(north={"party.toml": agreed}, south={"party.toml": 'name = "S"\n' + agreed})
    whole = data.load()
    assert whole.class_names == ("ill", "well", "dead")
    assert whole.feature_names == ("age", "sex=x", "sex=m", "sex=f", "sex=unknown")
    assert [holding.name for holding in whole.holdings] == ["north", "S"]
    for folder, holding in zip(("p/north", "p/south"), whole.holdings, strict=True):
        same(load_party(folder), whole.held(holding))


def test_agreed_categories_are_read_as_written_by_every_party(by_hand):
    """Ward 01 is not ward 1, also where only the other party says that wards are categories."""
    data = by_hand(
        north={"nodes.csv": "id,label,ward\np1,ill,01\np2,well,02\np3,,01\n"},
        south={
            "nodes.csv": "id,label,ward\np3,ill,01\np4,dead,10\n",
            "party.toml": 'categories.ward = ["01", "02", "10"]',
        },
    )
    whole = data.load()
    assert whole.feature_names == ("ward=01", "ward=02", "ward=10")
    assert whole.x.argmax(axis=1).tolist() == [0, 1, 0, 2]


def test_each_party_standardises_by_itself(by_hand):
    whole = replace(by_hand(), standardise=True, features=("age",)).load()
    south = whole.held(whole.holdings[1])
    assert south.x.tolist() == [[-1], [1]]
    same(
        load_party("p/south", Columns(standardise=True, features=("age",))),
        replace(south, y=np.array([1, 0]), classes=2, class_names=("dead", "ill")),
    )


def test_one_party_in_csv_and_one_in_parquet(by_hand, tmp_path):
    data = by_hand(south={"nodes.csv": None})
    south = polars.DataFrame({"id": [3, 4], "label": ["ill", "well"], "age": [1, 2], "sex": "f"})
    south.write_parquet(tmp_path / "p" / "south" / "nodes.parquet")
    (tmp_path / "p" / "south" / "edges.csv").write_text("source,target\n3,4\n")
    north = tmp_path / "p" / "north" / "nodes.csv"
    north.write_text(north.read_text().replace("p", ""))
    (north.parent / "edges.csv").write_text("source,target\n1,2\n")
    assert data.load().ids.tolist() == ["1", "2", "3", "4"]


def test_other_column_names(by_hand):
    data = by_hand(
        north={"nodes.csv": NORTH["nodes.csv"].replace("id,label", "key,state")},
        south={"nodes.csv": SOUTH["nodes.csv"].replace("id,label", "key,state")},
    )
    assert replace(data, id="key", label="state").load().nodes == 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("id", "key")}},
         "'p/south/nodes.csv' has no column 'id'; set data.id to the one that plays its part "
         "(there is: key, label, age, sex)."),
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("60", "old")}},
         "'p/south/nodes.csv', column 'age', line 3: 'old' stands in a column that also holds "
         "numbers (55 in line 2); correct it, or list the column in data.categorical."),
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("60", "")}},
         "'p/south/nodes.csv', column 'age', line 3: the number is missing; fill it in, drop the "
         "row or leave the column out, or have data.missing fill it."),
        ({"south": {"edges.csv": "source,target\np4,p1\n"}},
         "'p/south/edges.csv', column 'target', line 2: 'p1' is no node of 'p/south/nodes.csv'; "
         "add it there or drop the edge."),
        ({"south": {"nodes.csv": SOUTH["nodes.csv"].replace("age", "ages")}},
         "'p/south/nodes.csv' has no column 'age', which 'p/north/nodes.csv' has; give all "
         "parties the same feature columns, or list the common ones in data.features."),
        ({"south": {"nodes.csv": "id,label,age,sex,more\np3,ill,55,x,1\n",
                    "edges.csv": "source,target\n"}},
         "'p/north/nodes.csv' has no column 'more', which 'p/south/nodes.csv' has; give all "
         "parties the same feature columns, or list the common ones in data.features."),
        ({"south": {"nodes.csv": "id,label,age,sex\np3,ill,old,x\n",
                    "edges.csv": "source,target\n"}},
         "column 'age' holds numbers in 'p/north/nodes.csv' but categories in "
         "'p/south/nodes.csv'; make them alike, or list the column in data.categorical."),
        ({"north": {"nodes.csv": NORTH["nodes.csv"].replace("p3,,", "p3,well,")}},
         "the party 'north' labels the node 'p3' well, the party 'south' ill; correct one of them "
         "or leave one empty, or, if each party numbers nodes of its own, put its name before its "
         "ids."),
        ({"south": {"nodes.csv": None}},
         "the party's folder 'p/south' has neither nodes.parquet nor nodes.csv; add one, or "
         "name the file under [columns] of its party.toml."),
        ({"south": {"edges.parquet": ""}},
         "the party's folder 'p/south' has both edges.parquet and edges.csv; keep one."),
        ({"south": {"nodes.csv": "id,label,age,sex\n"}},
         "'p/south/nodes.csv' has no rows below its header; give a table with nodes."),
        ({"south": {"party.toml": "class_name = []"}},
         "unknown key of 'p/south/party.toml' 'class_name': did you mean 'class_names'?"),
        ({"south": {"party.toml": "class_names = 3"}},
         "'p/south/party.toml': class_names must be a list; correct it."),
        ({"south": {"party.toml": "version = 2"}},
         "'p/south/party.toml' has the version 2, this Atoll reads 1; use the Atoll that wrote "
         "it."),
        ({"north": {"party.toml": 'class_names = ["ill", "well", "dead"]'},
          "south": {"party.toml": 'class_names = ["ill", "dead", "well"]'}},
         "the parties 'north' and 'south' disagree on the classes in their party.toml (ill, well, "
         "dead; ill, dead, well); agree on one list."),
        ({"north": {"party.toml": 'class_names = ["ill", "well"]'}},
         "'p/south/nodes.csv', column 'label', line 3: 'dead' is none of the classes ill, well; "
         "correct it, or add it to data.class_names."),
        ({"south": {"party.toml": 'categories.sex = ["f"]'}},
         "'p/north/nodes.csv', column 'sex', line 3: 'm' is none of the categories f; correct it, "
         "or add it to the categories all parties agreed on."),
        ({"north": {"party.toml": 'categories.sex = ["f", "m"]'},
          "south": {"party.toml": 'categories.sex = ["m", "f"]'}},
         "two parties disagree on the categories of 'sex' in their party.toml (f, m; m, f); agree "
         "on one list."),
    ],
)  # fmt: skip
def test_what_is_wrong_in_folders_made_by_hand(by_hand, changed, said):
    assert complaint(by_hand(**changed).load) == said


def test_wrong_folders(by_hand, tmp_path):
    by_hand()
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for folder, said in {
        "": "data.folder is not given; set it to the folder of the parties' folders.",
        "none": "there is no folder 'none' (data.folder); check the path.",
        "file": "'file' (data.folder) is a file; name the folder of all parties.",
        "empty": "'empty' (data.folder) has no folder in it; put one for each party there.",
        "p/north": "'p/north' (data.folder) is the folder of a single party; name the one above "
        "it.",
    }.items():
        assert complaint(Parties(folder=folder).load) == said
    assert complaint(load_party, "none") == "there is no folder 'none'; check the path."
    assert complaint(load_party, "file") == "'file' is a file; name the party's folder."


def test_stray_files_beside_the_parties_do_no_harm(by_hand, tmp_path):
    data = by_hand()
    (tmp_path / "p" / "README.txt").write_text("parties")
    (tmp_path / "p" / ".hidden").mkdir()
    assert len(data.load().holdings) == 2


def written(tmp_path, graph=None) -> tuple[str, str]:
    folders = write_parties([graph or wheel(class_names=("a", "b"))], tmp_path / "p")
    return str(folders[0]), (folders[0] / "party.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nodes = 6", "nodes = 7",
         "'{f}/nodes.parquet' has 6 nodes, but its party.toml counts 7; one of them is damaged or "
         "not of this party."),
        ('"b"', '"c"',
         "'{f}/nodes.parquet', column 'label', row 2: 'b' is no class of its party.toml; one of "
         "them is damaged."),
        ('"f1"', '"g1"',
         "unknown column of '{f}/nodes.parquet' (data.features) 'g1': did you mean 'f1'?"),
        ('"f1"', '"id"', "'{f}/nodes.parquet', column 'id': it holds String, not numbers."),
        ('kind = "columns"', 'kind = "matrix"',
         "'{f}/party.toml' is damaged (KeyError: 'matrix'); fetch it anew."),
        ("version = 1", "version =",
         "'{f}/party.toml' can't be read as TOML (Invalid value (at line 1, column 10)); write it "
         "anew."),
    ],
)  # fmt: skip
def test_written_folders_that_were_tampered_with(tmp_path, old, new, said):
    folder, manifest = written(tmp_path)
    assert old in manifest
    (tmp_path / "p" / "wheel" / "party.toml").write_text(manifest.replace(old, new))
    assert complaint(load_party, folder) == said.format(f=folder)


def test_sparse_features_that_were_tampered_with(tmp_path):
    folder, _ = written(tmp_path, wheel(x=sparse.csr_array(wheel().x)))
    nodes = polars.read_parquet(f"{folder}/nodes.parquet")
    start = f"'{folder}/nodes.parquet': feature_indices and feature_values do not fit together ("
    for column in (
        polars.col("feature_indices") + 5,
        polars.col("feature_values").list.head(1),
        polars.lit(1).alias("feature_values"),
    ):
        nodes.with_columns(column).write_parquet(f"{folder}/nodes.parquet")
        said = complaint(load_party, folder)
        assert said.startswith(start)
        assert said.endswith("); the file is damaged, fetch it anew.")


def test_written_features_are_not_standardised(tmp_path):
    written(tmp_path)
    assert complaint(Parties(folder=str(tmp_path / "p"), standardise=True).load) == (
        "data.standardise is for folders made by hand; these were written with their features as "
        "they are: standardise before the split."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('class_names = ["a", "a"]', "'a' stands twice in class_names"),
        ('categories = {town = ["Oslo", "Rome", "Oslo"]}', "'Oslo' stands twice in the categories"),
    ],
)
def test_names_that_stand_twice_are_refused(text, said, tmp_path):
    (tmp_path / "party.toml").write_text(text)
    (tmp_path / "nodes.csv").write_text("id,label,x\n1,a,2\n2,a,3\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    with pytest.raises(AtollError, match=said):
        load_party(tmp_path)


@pytest.mark.parametrize("classes", [10**9, 10**30, -1])
def test_a_number_of_classes_does_not_fill_the_memory(classes, tmp_path):
    """Classes without names are listed by number: one line of a manifest took all there was."""
    folder, manifest = written(tmp_path, wheel())
    assert "\nclasses = 2" in manifest
    (tmp_path / "p" / "wheel" / "party.toml").write_text(
        manifest.replace("\nclasses = 2", f"\nclasses = {classes}")
    )
    assert "classes must be from 0 to 65536; correct it." in complaint(load_party, folder)


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "loop", "nowhere"])
def test_a_folder_of_somebody_else_s_keeps_nobody_waiting(name, kind, tmp_path):
    """A pipe that nobody writes to, a link to a device without an end, a link to itself."""
    (tmp_path / "nodes.csv").write_text("id,label,x\n1,a,2\n2,b,3\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    (tmp_path / name).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        targets = {"endless": "/dev/zero", "loop": name, "nowhere": "not-there"}
        (tmp_path / name).symlink_to(targets[kind])
    with pytest.raises(AtollError):
        load_party(tmp_path)
