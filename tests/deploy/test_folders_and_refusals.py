"""Folders are looked at before anything starts, and a run stops where waiting can't help."""

import time

import pytest

from atoll.deploy.local import Told
from atoll.deploy.refusal import with_their_words
from atoll.deploy.up import looked_at
from atoll.errors import AtollError
from atoll.methods.base import methods
from small_federations import community_parties
from thread_fleet import deployed, deployed_on

NODES = "id,label,land,split\n{0}1,a,AT,train\n{0}2,b,AT,val\n{0}3,a,{1},test\n{0}4,b,AT,train\n"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders made by hand whose parties know different countries."""
    monkeypatch.chdir(tmp_path)
    made = []
    for name, country in (("north", "CH"), ("south", "DE")):
        folder = tmp_path / "sites" / name
        folder.mkdir(parents=True)
        (folder / "nodes.csv").write_text(NODES.format(name[0], country))
        (folder / "edges.csv").write_text("source,target\n{0}1,{0}2\n{0}3,{0}4\n".format(name[0]))
        (folder / "party.toml").write_text('columns.split = "split"\n')
        made.append(folder.relative_to(tmp_path))
    return made


def refusal(folders):
    with pytest.raises(AtollError) as said:
        looked_at(folders, methods["fed-avg"]())
    return str(said.value)


def test_the_lines_that_make_folders_alike_are_said_and_do_it(folders):
    said = refusal(folders)
    assert said.startswith(
        "the parties 'north' and 'south' have different feature columns ('land=CH' is only in one "
        "of them); give all parties the same. These lines at the top of every party.toml do "
        "it:\n\n"
    )
    lines = said.partition("\n\n")[2]
    for folder in folders:
        with (folder / "party.toml").open("r+") as file:
            before = file.read()
            file.seek(0)
            file.write(lines.replace("[categories]", before + "[categories]"))
    assert looked_at(folders, methods["fed-avg"]()) == (
        "folders: 2 read, 8 nodes, 3 features, 2 classes"
    )


def test_a_column_that_only_one_has_is_named(folders):
    table = folders[1] / "nodes.csv"
    table.write_text(table.read_text().replace("land", "country"))
    assert refusal(folders) == (
        "'sites/south/nodes.csv' has no column 'land', which 'sites/north/nodes.csv' has; give all "
        "parties the same feature columns, or list the common ones in data.features."
    )


def test_every_folder_is_looked_at_before_anything_is_said(folders):
    (folders[0] / "edges.csv").write_text("source,target\nn1,n9\n")
    (folders[1] / "nodes.csv").unlink()
    assert refusal(folders) == (
        "2 of 2 folders can't be used:\n"
        "  1. 'sites/north/edges.csv', column 'target', line 2: 'n9' is no node of "
        "'sites/north/nodes.csv'; add it there or drop the edge.\n"
        "  2. the party's folder 'sites/south' has neither nodes.parquet nor nodes.csv; add one, "
        "or name the file under [columns] of its party.toml."
    )


def test_a_folder_without_training_nodes(folders):
    for folder in folders:
        (folder / "party.toml").write_text('columns.features = ["land"]\ncategories.land = '
                                           '["AT", "CH", "DE"]\n')  # fmt: skip
    assert refusal(folders).splitlines()[1] == (
        "  1. 'sites/north' has no training node; name the column with the split under "
        "[columns] of its party.toml, or have one drawn with [split]."
    )


def test_a_run_stops_at_once_where_sites_refuse_and_their_words_are_kept_for_their_people(
    folders, tmp_path
):
    began = time.time()
    for folder in folders:
        (folder / "party.toml").write_text('columns.splt = "split"\n')
    coordinator = deployed_on(folders, tmp_path, "fed-avg", terms={"patience": 300.0})
    with pytest.raises(AtollError, match="waiting can't help") as stopped:
        coordinator.run()
    assert time.time() - began < 60
    assert "north: suspended, it refuses, and says why in its log" in str(stopped.value)
    states = {name: site.state for name, site in coordinator.fleet.sites.items()}
    said = with_their_words("It stopped.", states, began).splitlines()
    assert said[1].strip() == (
        "north says: unknown key of 'sites/north/party.toml' [columns] 'splt': did you mean "
        "'split'?"
    )
    assert with_their_words("It stopped.", states, time.time() + 1) == "It stopped."


def test_nothing_of_a_sites_words_reaches_the_coordinator(folders, tmp_path):
    for folder in folders:
        (folder / "party.toml").write_text('columns.splt = "split"\n')
    coordinator = deployed_on(folders, tmp_path, "fed-avg")
    with pytest.raises(AtollError):
        coordinator.run()
    assert b"splt" not in b"".join(coordinator.fleet.transcript)


def test_one_site_that_refuses_does_not_stop_the_others(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    first = next(iter(coordinator.fleet.sites))
    (coordinator.fleet.sites[first].data / "nodes.parquet").unlink()
    assert coordinator.run() is not None
    assert coordinator.fed.suspended == {first: "it refuses, and says why in its log"}


def test_phases_are_said_once_each():
    said = []
    told = Told(said.append)
    for state, message, number in (
        ("starting", "", 0),
        ("waiting", "1 of 2", 0),
        ("waiting", "1 of 2", 0),
        ("running", "", 0),
        ("running", "", 0),
        ("running", "", 1),
    ):
        told.look({"state": state, "message": message, "round": number, "time": 5.0}, 4.0)
    told.look({"state": "waiting", "message": "of an earlier job", "round": 0, "time": 3.0}, 4.0)
    assert said == ["waiting: 1 of 2", "rounds: the first is under way"]
