"""The model that was scored is the model that is kept."""

import json

import numpy as np
import polars
import pytest
import torch
from safetensors.torch import load_file
from support import BRIEF

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties, run_experiment
from atoll.inference.embed import embed
from atoll.inference.kept import open_run
from atoll.inference.predict import logits, predict
from atoll.methods.base import methods

SMALL = {
    "data": {"name": "patients"},
    "partition": {"name": "random", "clients": 4},
    "model": {"hidden": 8},
    "run": {"rounds": 6},
}
# Each client's scores depend on more than its own graph and model.
NO_MODEL = {"ada-fgl", "gfl-appnp", "fed-avg-transfer", "graphfl-domain", "ppfl-deepwalk"}


def run(run_dir, name="fed-avg", **sections):
    method = {"name": name} | BRIEF.get(name, {}) | sections.pop("method", {})
    return run_experiment(resolve(SMALL | {"method": method} | sections), run_dir)


def accuracy_by_client(result, table):
    """Of the test nodes, from a table of predictions and the labels of the data."""
    found = []
    for graph, (_, own) in zip(
        load_parties(result.experiment).graphs,
        table.group_by("client", maintain_order=True),
        strict=True,
    ):
        names = np.array(graph.class_names or [str(c) for c in range(graph.classes)])
        assert own["id"].to_list() == [str(key) for key in graph.ids]
        right = own["predicted"].to_numpy() == names[graph.y]
        found.append(right[graph.test].mean())
    return found


@pytest.mark.parametrize("name", sorted(methods))
def test_predictions_score_what_was_reported(name, tmp_path):
    result = run(tmp_path / "run", name)
    if not result.experiment.method.scores_plainly:
        with pytest.raises(AtollError, match=f"{name} leaves no model that could be applied"):
            predict(tmp_path / "run")
        return
    table = predict(tmp_path / "run")
    reported = [client["test_accuracy"] for client in result.per_client]
    assert accuracy_by_client(result, table) == reported
    chances = table.select(polars.selectors.starts_with("p_")).to_numpy()
    assert np.allclose(chances.sum(1), 1)
    assert embed(tmp_path / "run").height == table.height


@pytest.mark.parametrize(
    "method",
    [
        {"name": "fed-avg", "evaluates": "global"},
        {"name": "fed-per", "evaluates": "global"},
        {"name": "gcfl", "evaluates": "cluster"},
        {"name": "self-training", "inner": {"name": "fed-avg", "evaluates": "global"}},
    ],
    ids=lambda method: method["name"],
)
def test_models_that_clients_were_sent_to_be_scored_with_are_kept(method, tmp_path):
    result = run(tmp_path / "run", method["name"], method=method)
    reported = [client["test_accuracy"] for client in result.per_client]
    assert accuracy_by_client(result, predict(tmp_path / "run")) == reported


def test_the_best_rounds_parameters_are_not_the_last_ones(tmp_path):
    """A rate so high that training gets worse: an early round is the best."""
    result = run(tmp_path / "run", optimizer={"name": "sgd", "lr": 30.0})
    assert result.best_round < 6
    best = load_file(tmp_path / "run" / "best.safetensors")
    last = load_file(tmp_path / "run" / "parameters.safetensors")
    assert not torch.equal(best["clients/model/conv1.weight"], last["clients/model/conv1.weight"])
    short = run(tmp_path / "short", optimizer={"name": "sgd", "lr": 30.0},
                run={"rounds": result.best_round})  # fmt: skip
    assert torch.equal(
        best["clients/model/conv1.weight"], short.parameters["clients/model/conv1.weight"]
    )


def test_a_run_without_a_kept_model_or_with_other_data_is_refused(tmp_path):
    run(tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    summary["per_client"][1]["nodes"] += 1
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(AtollError, match="restore the data it was trained on"):
        open_run(tmp_path / "run")
    run(tmp_path / "older")
    (tmp_path / "older" / "best.safetensors").unlink()
    with pytest.raises(AtollError, match="keeps no model of its best round"):
        open_run(tmp_path / "older")
    (tmp_path / "older" / "summary.json").unlink()
    with pytest.raises(AtollError, match="finish it with: atoll resume"):
        open_run(tmp_path / "older")


def test_one_client_by_name_or_number(tmp_path):
    run(tmp_path / "run")
    kept = open_run(tmp_path / "run")
    assert kept.names == ("client 0", "client 1", "client 2", "client 3")
    [one] = logits(kept.only("2"), [kept.graphs[2]])
    torch.testing.assert_close(one, logits(kept, list(kept.graphs))[2])
    with pytest.raises(AtollError, match="unknown client of the run 'north'"):
        predict(tmp_path / "run", client="north")


def test_links_have_embeddings_but_no_classes(tmp_path):
    run(tmp_path / "run", task={"name": "links"})
    with pytest.raises(AtollError, match="task 'links', which gives nodes no class"):
        predict(tmp_path / "run")
    assert embed(tmp_path / "run", client="1").width == 2 + 8


def test_methods_without_a_model_are_those_we_know():
    plain = {name for name in methods if methods[name]().scores_plainly}
    assert set(methods) - plain == NO_MODEL
