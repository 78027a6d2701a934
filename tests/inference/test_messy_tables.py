"""Gaps, dates, decimal commas and weights: new nodes and exported modules follow the training."""

import json

import numpy as np
import pytest
import torch

from atoll.data.table_fitted import Preprocessing
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import run_experiment
from atoll.graph import dense
from atoll.inference.export import export
from atoll.inference.kept import open_run
from atoll.inference.predict import logits, predict
from exported_scores import scores

HEADER = "account;balance;opened;kind;bank;status"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    lines, names = [], [f"a{i}" for i in range(120)]
    for i, name in enumerate(names):
        balance = "" if i % 7 == 3 else f"{rng.normal(200, 50):.2f}".replace(".", ",")
        opened = "" if i % 11 == 5 else f"20{10 + i % 9}-0{1 + i % 8}-15"
        kind, bank = ("shop", "private", "")[i % 3], ("north", "south")[i % 2]
        lines.append(f"{name};{balance};{opened};{kind};{bank};{('fine', 'fraud')[i % 5 == 0]}")
    (tmp_path / "nodes.csv").write_text("\n".join([HEADER, *lines[:100]]) + "\n")
    new = [line.rsplit(";", 1)[0] for line in lines[100:]]
    (tmp_path / "new.csv").write_text("\n".join([HEADER.rsplit(";", 1)[0], *new]) + "\n")
    for file, first in (("edges.csv", range(100)), ("new_edges.csv", range(100, 120))):
        rows = [f"a{i};a{j};{rng.integers(1, 9)},5" for i in first for j in rng.integers(0, 100, 4)]
        (tmp_path / file).write_text("\n".join(["from;to;amount", *rows]) + "\n")
    return tmp_path


def run(folder, out="run", model="gcn", **options):
    data = {
        "name": "tables", "nodes": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv"),
        "id": "account", "label": "status", "source": "from", "target": "to", "owner": "bank",
        "separator": ";", "decimal": ",", "standardise": True, "weight": "amount",
    }  # fmt: skip
    experiment = resolve(
        {
            "data": data | options,
            "method": {"name": "fed-avg"},
            "partition": {"name": "natural"},
            "model": {"name": model, "hidden": 8},
            "run": {"rounds": 3},
        }
    )
    return run_experiment(experiment, folder / out)


@pytest.mark.parametrize("missing", ["median", "mean", "indicator"])
def test_gaps_are_filled_as_in_training(missing, folder):
    run(folder, missing=missing)
    found = json.loads((folder / "run" / "preprocessing.json").read_text())
    fitted, data = Preprocessing.of_json(found, folder), open_run(folder / "run").experiment.data
    owners = data.node_table().frame["bank"].to_list()
    assert np.array_equal(dense(fitted.encode(data.node_table(), owners)), dense(data.load().x))
    assert set(found["columns"][0]["fill"]) == {"north", "south"}
    table = predict(folder / "run", nodes=folder / "new.csv", edges=folder / "new_edges.csv")
    assert table.height == 20
    assert table["client"].to_list() == ["north"] * 10 + ["south"] * 10


def test_gaps_that_training_did_not_fill_are_refused(folder):
    header, *lines = (folder / "nodes.csv").read_text().splitlines()
    rows = [line.split(";") for line in lines]
    full = [[row[0], row[1] or "1,0", row[2] or "2015-01-01", *row[3:]] for row in rows]
    (folder / "nodes.csv").write_text("\n".join([header, *map(";".join, full)]) + "\n")
    run(folder)
    with pytest.raises(AtollError, match="the number is missing"):
        predict(folder / "run", nodes=folder / "new.csv")


def test_an_exported_module_takes_the_weights_of_edges(folder, tmp_path):
    run(folder, missing="median")
    export(folder / "run", folder / "out", client="north")
    kept = open_run(folder / "run").only("north")
    [graph] = kept.graphs
    [expected] = logits(kept, [graph])
    weights = torch.from_numpy(graph.weights).float()
    found, _ = scores(folder / "out", graph, tmp_path, weights=weights)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    run(folder, "sage", model="sage", missing="median")
    with pytest.raises(AtollError, match="'sage' was trained on edges with weights"):
        export(folder / "sage", folder / "sage-out")
    assert not (folder / "sage-out").exists()
