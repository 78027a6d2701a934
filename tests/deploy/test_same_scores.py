"""One model, four places: the run's process, the exported module, ONNX, and a deployed site."""

import json
import random
import shutil

import numpy as np
import polars
import pytest
import torch

import atoll
from atoll.archive import read_tree
from atoll.data.parties import load_party
from atoll.deploy.site import Site
from atoll.errors import AtollError
from atoll.experiment.runner import run_experiment
from atoll.graph import dense
from atoll.inference.at_site import open_state
from atoll.inference.export import export
from atoll.inference.kept import open_run
from atoll.inference.predict import logits, predict
from exported_scores import scores
from small_federations import community_parties
from thread_fleet import again, deployed, deployed_on, experiment

PARTY = """name = "{name}"
class_names = ["ehrlich", "betrug"]
categories.land = ["AT", "CH", "DE"]

[columns]
nodes = "konten.csv"
id = "konto"
label = "art"
split = "teil"
source = "von"
target = "an"
weight = "betrag"
weight_scale = "log"
separator = ";"
decimal = ","
missing = "indicator"
standardise = true
features = {{ turnover = "umsatz", land = "land", since = "seit" }}
"""
HEADER = "konto;art;teil;umsatz;land;seit;notiz"


def account(i, dice, split, label=True):
    """A line of a bank's table; ``i`` is its number."""
    fraud = dice.random() < 0.3
    turnover = "" if dice.random() < 0.1 else f"{dice.gauss(900 if fraud else 300, 150):.2f}"
    art = ("ehrlich", "betrug")[fraud] if label else ""
    return ";".join(
        [f"{i}", art, split, turnover.replace(".", ","), dice.choice(["AT", "CH", "DE"]),
         f"20{dice.randint(10, 25)}-0{dice.randint(1, 9)}-11", f"frei {i}"]
    )  # fmt: skip


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    """Two banks' folders, made by hand: separators, decimal commas, gaps, dates, own words."""
    home, folders = tmp_path_factory.mktemp("same"), []
    for number, name in enumerate(("Bank Ö/1", "Bank Ä")):
        dice = random.Random(number)
        folder = home / "sites" / f"bank-{number}"
        folder.mkdir(parents=True)
        (folder / "party.toml").write_text(PARTY.format(name=name), encoding="utf-8")
        rows = [
            account(f"{number}k{i}", dice, dice.choice(["train", "train", "val", "test"]))
            for i in range(60)
        ]
        (folder / "konten.csv").write_text("\n".join([HEADER, *rows, ""]))
        pairs = [(i, dice.randrange(60), dice.uniform(1, 5000)) for i in range(60) for _ in "ab"]
        lines = [f"{number}k{i};{number}k{j};{w:.2f}".replace(".", ",") for i, j, w in pairs]
        (folder / "edges.csv").write_text("\n".join(["von;an;betrag", *lines, ""]))
        folders.append(folder)
    return home, folders


@pytest.fixture(scope="module", params=["fed-avg", "fed-pub"])
def run(request, banks, tmp_path_factory):
    """A simulation and a deployment of the same experiment; client by client, in single precision,
    they have the very same bytes."""
    home, folders = banks
    place = tmp_path_factory.mktemp(request.param)
    options = {"dtype": "float32", "rounds": 12}
    result = deployed_on(folders, place, request.param, **options).run()
    chosen = experiment(home / "sites", request.param, chunk=1, **options)
    simulated = run_experiment(chosen, place / "simulated")
    assert result.best_round == simulated.best_round
    return place


def at_site(place, number):
    return open_state(place / "state" / f"bank-{number}")


def test_the_same_scores_from_the_process_the_module_onnx_and_the_site(run, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("torch_geometric")
    kept = open_run(run / "simulated")
    assert kept.names == ("Bank Ö/1", "Bank Ä")
    folders = export(run / "simulated", tmp_path / "out", to="onnx")
    for number, (graph, folder) in enumerate(zip(kept.graphs, folders, strict=True)):
        [here] = logits(kept.take([number]), [graph])
        [site] = logits(at_site(run, number), list(at_site(run, number).graphs))
        assert (here - site).abs().max() < 1e-5
        weights = torch.from_numpy(graph.weights).float()
        module, classes = scores(folder, graph, tmp_path, weights=weights)
        assert classes == ("ehrlich", "betrug")
        assert (here - module).abs().max() < 1e-5
        session = runtime.InferenceSession(folder / "model.onnx")
        given = {"x": dense(graph.x), "edge_index": graph.edges, "edge_weight": weights.numpy()}
        [onnx] = session.run(None, given)
        assert abs(onnx - here.numpy()).max() < 1e-5


def test_tables_of_predictions_are_the_same_too(run):
    own = predict(run / "simulated", client="Bank Ö/1")
    there = predict(at_site(run, 0))
    assert own.columns == ["id", "client", "predicted", "p_ehrlich", "p_betrug"]
    assert own.drop("p_ehrlich", "p_betrug").equals(there.drop("p_ehrlich", "p_betrug"))
    np.testing.assert_allclose(own["p_betrug"], there["p_betrug"], atol=1e-5)
    assert atoll.predict(run / "state" / "bank-0").equals(there)


def test_new_accounts_at_a_site_are_read_as_the_known_ones_were(run, banks, tmp_path):
    """As if they had been in the folder all along, without a label and a split."""
    dice = random.Random(9)
    rows = [account(f"0n{i}", dice, "", label=False) for i in range(5)]
    rows = [row.rpartition(";")[0] for row in rows]  # the note was no feature
    (tmp_path / "neu.csv").write_text("\n".join([HEADER.rpartition(";")[0], *rows, ""]))
    links = [f"0n{i};0k{7 * i};{12 + i},5" for i in range(5)]
    (tmp_path / "neue.csv").write_text("\n".join(["von;an;betrag", *links, ""]))
    found = predict(at_site(run, 0), nodes=tmp_path / "neu.csv", edges=tmp_path / "neue.csv")
    folder = tmp_path / "later"
    shutil.copytree(banks[1][0], folder)
    with (folder / "konten.csv").open("a") as table, (folder / "edges.csv").open("a") as edges:
        table.writelines(f"{row};\n" for row in rows)
        edges.writelines(f"{link}\n" for link in links)
    [expected] = logits(at_site(run, 0), [load_party(folder)])
    chances = expected[60:].double().softmax(1)[:, 1]
    np.testing.assert_allclose(found["p_betrug"], chances, atol=1e-6)
    assert found["id"].to_list() == [f"0n{i}" for i in range(5)]
    assert set(found["client"]) == {"Bank Ö/1"}
    new = {"nodes": tmp_path / "neu.csv", "edges": tmp_path / "neue.csv"}
    simulated = predict(run / "simulated", client="Bank Ö/1", **new)
    assert simulated["id"].equals(found["id"])
    np.testing.assert_allclose(simulated["p_betrug"], found["p_betrug"], atol=1e-6)
    with pytest.raises(AtollError, match=r"tables of its own; give --client NAME .*Bank Ö/1"):
        predict(run / "simulated", **new)


def test_a_simulation_over_folders_keeps_what_each_site_keeps(run, tmp_path):
    """Scales and fillings of every party, and in an export those of its own."""
    pytest.importorskip("torch_geometric")
    whole = json.loads((run / "simulated" / "preprocessing.json").read_text())
    folders = export(run / "simulated", tmp_path / "out")
    for number, folder in enumerate(folders):
        alone = json.loads((at_site(run, number).folder / "preprocessing.json").read_text())
        assert json.loads((folder / "preprocessing.json").read_text()) == alone
        for here, there in zip(whole["columns"], alone["columns"], strict=True):
            for what in ("scale", "fill"):
                assert there.get(what, {}).items() <= here.get(what, {}).items()


def test_a_site_exports_and_embeds_its_own_model(run, tmp_path):
    pytest.importorskip("torch_geometric")
    kept = at_site(run, 1)
    [folder] = export(kept, tmp_path / "out")
    found, _ = scores(folder, kept.graphs[0], tmp_path,
                      weights=torch.from_numpy(kept.graphs[0].weights).float())  # fmt: skip
    [expected] = logits(kept, list(kept.graphs))
    assert (found - expected).abs().max() < 1e-5
    card = (folder / "card.md").read_text()
    assert f"the parameters of round {kept.round}" in card
    assert str(tmp_path) not in card
    fitted = json.loads((folder / "preprocessing.json").read_text())
    assert fitted["feature_names"][:2] == ["turnover", "turnover missing"]
    assert list(fitted["columns"][0]["scale"]) == ["Bank Ä"]
    assert atoll.embed(run / "state" / "bank-1").height == 60


def test_a_site_keeps_the_best_rounds_model_beside_the_last(tmp_path):
    """A rate so high that training gets worse, also where the run is killed and the sites too."""
    graphs = community_parties((19, 25, 14))
    coordinator = deployed(tmp_path, graphs, "fed-avg", rounds=8)
    optimizer = type(coordinator.method.optimizer)(lr=3.0)
    object.__setattr__(coordinator.plan.experiment.method, "optimizer", optimizer)
    killed = coordinator.rounds.complete

    def complete():
        if coordinator.rounds.done == 6:
            raise KeyboardInterrupt
        return killed()

    coordinator.rounds.complete = complete
    with pytest.raises(KeyboardInterrupt):
        coordinator.run()
    result = again(coordinator).run()
    assert result.best_round < 6
    for number, site in enumerate(coordinator.fleet.sites.values()):
        [folder] = [path for path in site.state.iterdir() if path.is_dir()]
        assert len(list(folder.glob("scored-*.safetensors"))) <= 6
        best, facts = read_tree(folder / "best.safetensors")
        last, _ = read_tree(folder / "model.safetensors")
        assert facts["round"] == result.best_round
        name = "model/conv1.weight"
        assert not torch.equal(best[f"clients/{name}"], last[name])
        kept = open_state(site.state)
        graph = kept.graphs[0]
        [own] = logits(kept, [graph])
        right = (own.argmax(1).numpy() == graph.y)[graph.test].mean()
        assert right == pytest.approx(result.per_client[number]["test_accuracy"])


def test_what_is_wrong_with_a_state_is_one_sentence(run, banks, tmp_path):
    with pytest.raises(AtollError, match="there is no folder"):
        open_state(tmp_path / "none")
    with pytest.raises(AtollError, match="holds no run; name the folder"):
        open_state(tmp_path)
    state = tmp_path / "state"
    shutil.copytree(run / "state" / "bank-0", state)
    [one] = [path for path in state.iterdir() if path.is_dir()]
    shutil.copytree(one, state / "fed-avg-2")
    with pytest.raises(AtollError, match="holds several runs; name one with --run"):
        open_state(state)
    assert open_state(state, run=one.name).names == ("Bank Ö/1",)
    (state / "fed-avg-2" / "best.safetensors").unlink()
    with pytest.raises(AtollError, match="has not been finished at this site"):
        open_state(state, run="fed-avg-2")
    with pytest.raises(AtollError, match=r"has 60 nodes|features that its data no longer gives"):
        open_state(one, data=banks[1][1])
    site = json.loads((one / "site.json").read_text())
    (one / "site.json").write_text(json.dumps(site | {"data": str(tmp_path / "moved")}))
    with pytest.raises(AtollError, match="name it with --data"):
        open_state(one)
    assert open_state(one, data=banks[1][0]).round == open_state(run / "state" / "bank-0").round


def test_a_coordinator_cant_have_a_site_run_code_when_its_state_is_opened(run, tmp_path):
    state = tmp_path / "state"
    shutil.copytree(run / "state" / "bank-0", state)
    [folder] = [path for path in state.iterdir() if path.is_dir()]
    begun = json.loads((folder / "begin.json").read_text())
    trap = tmp_path / "evil.py"
    trap.write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    begun["experiment"]["method"] = {"name": f"{trap}:Evil"}
    (folder / "begin.json").write_text(json.dumps(begun))
    with pytest.raises(AtollError, match="admit"):
        open_state(state)
    assert not (tmp_path / "mark").exists()


def test_folders_by_atoll_split_have_predictions_of_their_own_nodes(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25, 14)), "fed-avg", rounds=2)
    coordinator.run()
    site: Site = next(iter(coordinator.fleet.sites.values()))
    table = predict(open_state(site.state))
    assert table.height == 19
    assert isinstance(table, polars.DataFrame)
    with pytest.raises(AtollError, match="was trained on a folder by atoll split"):
        predict(open_state(site.state), nodes=tmp_path / "new.csv")
