"""The exported module says what Atoll says, and needs no Atoll."""

import ast

import pytest
import torch

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import run_experiment
from atoll.graph import dense
from atoll.inference.export import export
from atoll.inference.kept import open_run
from atoll.inference.predict import logits
from atoll.models.base import models
from exported_scores import scores

pytest.importorskip("torch_geometric")

MODELS = [
    {"name": "gcn", "hidden": 8},
    {"name": "gcn", "hidden": 8, "head": "graph"},
    {"name": "gcn", "hidden": 8, "bias": False, "dropout": 0.0},
    {"name": "sage", "hidden": 8},
    {"name": "sage", "hidden": 8, "bias": False},
    {"name": "gat", "hidden": 4, "heads": 3},
    {"name": "gat", "hidden": 4, "heads": 3, "bias": False},
    {"name": "sgc", "hops": 3},
    {"name": "appnp", "hidden": 8, "hops": 4, "alpha": 0.3},
    {"name": "mlp", "hidden": 8},
    {"name": "gamlp", "hidden": 8, "hops": 2},
    {"name": "aux-gcn", "hidden": 8, "sigma": 0.5},
    {"name": "disen", "factors": 3, "hidden": 4, "routings": 2},
    {"name": "gin", "hidden": 8, "layers": 2},
]


def run(run_dir, **sections):
    usual = {
        "data": {"name": "patients"},
        "partition": {"name": "random", "clients": 3},
        "model": {"hidden": 8},
        "method": {"name": "fed-avg"},
        "run": {"rounds": 3},
    }
    return run_experiment(resolve(usual | sections), run_dir)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: " ".join(map(str, m.values())))
def test_outputs_are_those_of_atoll(model, tmp_path):
    run(tmp_path / "run", model=model)
    assert export(tmp_path / "run", tmp_path / "out", client="1") == [tmp_path / "out"]
    kept = open_run(tmp_path / "run").only("1")
    [expected] = logits(kept, list(kept.graphs))
    found, classes = scores(tmp_path / "out", kept.graphs[0], tmp_path)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert classes == kept.class_names


@pytest.mark.parametrize("model", MODELS, ids=lambda m: " ".join(map(str, m.values())))
def test_onnx_says_the_same_of_graphs_of_any_size(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    run(tmp_path / "run", model=model)
    folders = export(tmp_path / "run", tmp_path / "out", to="onnx")
    kept = open_run(tmp_path / "run")
    for folder, graph, expected in zip(
        folders, kept.graphs, logits(kept, list(kept.graphs)), strict=True
    ):
        session = runtime.InferenceSession(folder / "model.onnx")
        given = {"x": dense(graph.x), "edge_index": graph.edges}
        wanted = {entry.name for entry in session.get_inputs()}
        [found] = session.run(None, {name: given[name] for name in wanted})
        assert abs(found - expected.numpy()).max() < 1e-5


def test_onnx_without_its_package_is_one_sentence(tmp_path, monkeypatch):
    run(tmp_path / "run")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AtollError, match="needs torch_geometric, which is not installed"):
        export(tmp_path / "run", tmp_path / "out", to="onnx")
    assert not (tmp_path / "out").exists()


def test_every_model_but_ones_own_is_exported(tmp_path):
    assert {model["name"] for model in MODELS} == set(models) - {"module", "star-gin"}
    run(tmp_path / "run", model={"name": "module", "factory": "linear_module:build"})
    with pytest.raises(AtollError, match="'module' can't be exported: it is your own"):
        export(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_double_precision_stays(tmp_path):
    run(tmp_path / "run", run={"rounds": 2, "dtype": "float64"})
    export(tmp_path / "run", tmp_path / "out", client="0")
    kept = open_run(tmp_path / "run").only("0")
    [expected] = logits(kept, list(kept.graphs))
    found, _ = scores(tmp_path / "out", kept.graphs[0], tmp_path, torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_one_folder_per_client_unless_all_have_the_same_model(tmp_path):
    run(tmp_path / "own")
    folders = export(tmp_path / "own", tmp_path / "each")
    assert folders == [tmp_path / "each" / f"client-{k}" for k in range(3)]
    files = ["card.md", "model.py", "weights.safetensors"]
    assert sorted(path.name for path in folders[2].iterdir()) == files
    run(tmp_path / "common", method={"name": "fed-avg", "evaluates": "global"})
    assert export(tmp_path / "common", tmp_path / "one") == [tmp_path / "one"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == files
    assert "every client's model" in (tmp_path / "one" / "card.md").read_text()
    with pytest.raises(AtollError, match="exists already"):
        export(tmp_path / "own", tmp_path / "each")


def test_the_file_imports_torch_and_torch_geometric_only(tmp_path):
    run(tmp_path / "run")
    export(tmp_path / "run", tmp_path / "out", client="0")
    tree = ast.parse((tmp_path / "out" / "model.py").read_text())
    found = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    found |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert found == {"json", "pathlib", "torch", "torch_geometric.nn"}


def test_the_card_says_where_the_model_comes_from(tmp_path):
    result = run(tmp_path / "run")
    export(tmp_path / "run", tmp_path / "out", client="1")
    card = (tmp_path / "out" / "card.md").read_text()
    own = result.per_client[1]
    for line in (
        "# gcn, the model of client 1",
        f"round {result.best_round} of 3",
        f"| test accuracy of this client | {100 * own['test_accuracy']:.2f} % |",
        f"| test accuracy, mean over clients | {100 * result.test_accuracy:.2f} % |",
        f"| nodes of this client | {own['nodes']}, of which {own['train_nodes']} trained on |",
        "| seed | 0 |",
        f"| train | model | 3 | {result.bytes_up - 3 * 3 * 8:,} |",
        "may never leave a client under this method: edges, features, labels, optimizer.",
    ):
        assert line in card
