"""New nodes of a table, scored as if they had been there."""

import csv
import json

import numpy as np
import polars
import pytest
import torch

from atoll.data.table_fitted import Preprocessing
from atoll.data.tables import Tables
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_whole, run_experiment
from atoll.graph import dense
from atoll.inference.kept import open_run
from atoll.inference.predict import predict

HEADER = ["account", "balance", "kind", "young", "bank", "status"]
KNOWN, ALL = 150, 180


def write(path, header, rows):
    with path.open("w", newline="") as opened:
        csv.writer(opened).writerows([header, *rows])


@pytest.fixture(scope="module")
def accounts():
    """Accounts with a number, two kinds of category (one of digits), gaps, owners and labels."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(ALL):
        fraud = rng.random() < 0.3
        kind = rng.choice(["shop", "private", ""]) if i > 2 else ["shop", "private", ""][i]
        bank = ("north", "süd & co")[i % 2]
        row = [f"{i:04d}", f"{rng.normal(200 + 90 * fraud, 40):.2f}", kind, f"0{i % 2}", bank]
        rows.append([*row, "fraud" if fraud else "fine"])
    edges = [[f"{i:04d}", f"{j:04d}"] for i in range(ALL) for j in rng.integers(0, ALL, 3)]
    return rows, edges


@pytest.fixture(scope="module")
def folder(accounts, tmp_path_factory):
    rows, edges = accounts
    home = tmp_path_factory.mktemp("accounts")
    write(home / "nodes.csv", HEADER, rows[:KNOWN])
    write(home / "new.csv", HEADER[:-1], [row[:-1] for row in rows[KNOWN:]])
    old = [e for e in edges if max(e) < f"{KNOWN:04d}"]
    write(home / "edges.csv", ["from", "to"], old)
    write(home / "new_edges.csv", ["from", "to"], [e for e in edges if e not in old])
    data = {
        "name": "tables", "nodes": str(home / "nodes.csv"), "edges": str(home / "edges.csv"),
        "id": "account", "label": "status", "source": "from", "target": "to", "owner": "bank",
        "standardise": True, "categorical": ["young"],
    }  # fmt: skip
    for method in ("fed-avg", "fed-sage-plus"):
        experiment = resolve(
            {
                "data": data,
                "method": {"name": method},
                "partition": {"name": "natural"},
                "model": {"hidden": 8},
                "run": {"rounds": 3},
            }
        )
        run_experiment(experiment, home / method)
    return home


def altered(folder, tmp_path, old, new, file="new.csv"):
    text = (folder / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new))
    return tmp_path / file


def test_what_was_fitted_gives_the_same_features_again(folder):
    kept = json.loads((folder / "fed-avg" / "preprocessing.json").read_text())
    assert kept["class_names"] == ["fine", "fraud"]
    assert kept["feature_names"] == [
        "balance", "kind=private", "kind=shop", "young=00", "young=01",
    ]  # fmt: skip
    data = open_run(folder / "fed-avg").experiment.data
    assert isinstance(data, Tables)
    fitted = Preprocessing.of_json(kept, folder)
    owners = data.node_table().frame["bank"].to_list()
    whole = load_whole(open_run(folder / "fed-avg").experiment)
    assert np.array_equal(dense(fitted.encode(data.node_table(), owners)), dense(whole.x))
    assert json.loads(json.dumps(fitted.as_json())) == kept


def test_new_nodes_are_scored_in_their_clients_graph(folder, accounts):
    """By hand: the client's graph of old and new nodes, scaled by its old nodes in training."""
    table = predict(folder / "fed-avg", nodes=folder / "new.csv", edges=folder / "new_edges.csv")
    assert table.columns == ["id", "client", "predicted", "p_fine", "p_fraud"]
    rows, edges = accounts
    assert sorted(table["id"]) == [row[0] for row in rows[KNOWN:]]
    kept = open_run(folder / "fed-avg")
    assert kept.names == ("north", "süd & co")
    params = {name: p[1] for name, p in kept.params_K.items()}
    own = [row for row in rows if row[4] == "süd & co"]
    [_, graph] = kept.graphs
    train = set(graph.ids[graph.train].tolist())
    old = np.array([float(row[1]) for row in own if row[0] in train])
    balance = (np.array([float(row[1]) for row in own]) - old.mean()) / old.std()
    kinds = [[row[2] == "private", row[2] == "shop", False, True] for row in own]
    x = torch.tensor(np.column_stack([balance, kinds]), dtype=torch.float32)
    place = {row[0]: i for i, row in enumerate(own)}
    a = torch.eye(len(own))
    for i, j in edges:
        if i in place and j in place:
            a[place[i], place[j]] = a[place[j], place[i]] = 1
    scale = a.sum(1).rsqrt()
    operator = scale[:, None] * a * scale
    h = (operator @ x @ params["conv1.weight"] + params["conv1.bias"]).relu()
    h = (operator @ h @ params["conv2.weight"] + params["conv2.bias"]).relu()
    chances = (h @ params["classifier.weight"] + params["classifier.bias"]).softmax(1)
    found = table.filter(client="süd & co")
    at = [place[key] for key in found["id"]]
    assert np.allclose(found["p_fraud"].to_numpy(), chances[at, 1].numpy(), atol=1e-5)


def test_new_nodes_without_edges_and_for_a_chosen_client(folder, caplog):
    table = predict(folder / "fed-avg", client="north", nodes=folder / "new.csv")
    owners = polars.read_csv(folder / "new.csv")["bank"].to_list()
    others = sum(owner != "north" for owner in owners)
    assert f"{others} of {len(owners)} new nodes have another owner in column 'bank'" in caplog.text
    assert table["client"].unique().to_list() == ["north"]
    assert table.height == ALL - KNOWN


def test_edges_between_clients_are_left_out_and_counted(folder, caplog):
    predict(folder / "fed-avg", nodes=folder / "new.csv", edges=folder / "new_edges.csv")
    assert "new edges join nodes of different clients" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("balance", "saldo", "has no column 'balance', which the model was trained on"),
        ("kind,", "kind,shoe size,", "fields, but the header names"),
        ("private", "government", "'government' is none of the categories the model was"),
        ("0150,", "0150,1e", "is no number, but the model was trained on numbers"),
        ("0151,", "0001,", "'0001' is a node of the run already"),
        ("north", "nord", "column 'bank' 'nord': did you mean 'north'"),
        ("bank", "site", "has a column 'site', which the table trained on did not have"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(old, new, sentence, folder, tmp_path):
    if sentence.startswith("is no number"):
        new = "0150,much"
        text = (folder / "new.csv").read_text().splitlines()
        old = ",".join(text[1].split(",")[:2])
    nodes = altered(folder, tmp_path, old, new)
    with pytest.raises(AtollError) as problem:
        predict(folder / "fed-avg", nodes=nodes)
    assert sentence in str(problem.value)


def test_an_edge_to_nobody_is_refused(folder, tmp_path):
    edges = altered(folder, tmp_path, "0150", "nobody", "new_edges.csv")
    with pytest.raises(AtollError, match=r"'nobody' is no node of .* and none of the run"):
        predict(folder / "fed-avg", nodes=folder / "new.csv", edges=edges)


def test_new_nodes_need_a_table_an_owner_and_graphs_as_they_are(folder, tmp_path):
    nameless = tmp_path / "nameless.csv"
    polars.read_csv(folder / "new.csv", infer_schema=False).drop("bank").write_csv(nameless)
    with pytest.raises(AtollError, match=r"give --client NAME, or a column 'bank' .*north, süd"):
        predict(folder / "fed-avg", nodes=nameless)
    with pytest.raises(AtollError, match="fed-sage-plus has changed the clients' graphs"):
        predict(folder / "fed-sage-plus", nodes=folder / "new.csv")
    with pytest.raises(AtollError, match="without --nodes"):
        predict(folder / "fed-avg", edges=folder / "new_edges.csv")
    small = {"data": {"name": "patients"}, "model": {"hidden": 4}, "run": {"rounds": 1}}
    run_experiment(resolve(small), tmp_path / "run")
    with pytest.raises(AtollError, match="trained on the dataset 'patients'; only where"):
        predict(tmp_path / "run", nodes=folder / "new.csv")
