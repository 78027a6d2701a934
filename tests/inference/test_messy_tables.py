"""Gaps, dates, decimal commas and weights: new nodes and exported modules follow the training."""

import json

import numpy as np
import pytest
import torch

from atoll.data.table_fitted import Preprocessing
from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_whole, run_experiment
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
    whole = load_whole(open_run(folder / "run").experiment)
    assert np.array_equal(dense(fitted.encode(data.node_table(), owners)), dense(whole.x))
    assert not np.array_equal(dense(data.load().x), dense(whole.x))
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


@pytest.mark.parametrize("model", ["gcn", "sage"])
@pytest.mark.parametrize("directed", [False, True])
def test_an_exported_module_takes_the_weights_of_edges(model, directed, folder, tmp_path):
    run(folder, model=model, missing="median", directed=directed)
    export(folder / "run", folder / "out", client="north")
    kept = open_run(folder / "run").only("north")
    [graph] = kept.graphs
    [expected] = logits(kept, [graph])
    weights = torch.from_numpy(graph.weights).float()
    found, _ = scores(folder / "out", graph, tmp_path, weights=weights)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    fitted = json.loads((folder / "out" / "preprocessing.json").read_text())
    # FedAvg's clients end a round with models of their own; the others' numbers stay out of it.
    assert set(fitted["columns"][0]["scale"]) == set(fitted["columns"][0]["fill"]) == {"north"}
    unweighted, _ = scores(folder / "out", graph, tmp_path)
    assert (unweighted - expected).abs().max() > 1e-3


def test_onnx_takes_the_weights_of_edges_into_the_mean(folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    run(folder, model="sage", missing="median")
    export(folder / "run", folder / "out", client="north", to="onnx")
    kept = open_run(folder / "run").only("north")
    [graph] = kept.graphs
    [expected] = logits(kept, [graph])
    session = onnxruntime.InferenceSession(str(folder / "out" / "model.onnx"))
    given = {
        "x": dense(graph.x),
        "edge_index": graph.edges,
        "edge_weight": graph.weights.astype(np.float32),
    }
    np.testing.assert_allclose(session.run(None, given)[0], expected, atol=1e-5)


def test_a_run_whose_table_has_changed_is_not_used(folder):
    run(folder, missing="median")
    nodes = (folder / "nodes.csv").read_text()
    (folder / "nodes.csv").write_text(nodes.replace(",5", ",6"))
    with pytest.raises(AtollError, match="trained on features that its data no longer gives"):
        predict(folder / "run")
