"""The command line as a user meets it: real processes, exit codes, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAST = ["--data", "patients", "--partition", "random", "--clients", "3", "--rounds", "3",
        "--set", "model.hidden=8"]  # fmt: skip


def atoll(*arguments, cwd, env=None):
    return subprocess.run(
        [sys.executable, "-m", "atoll", *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=120, env=env,
    )  # fmt: skip


def test_run_prints_one_json_object_on_stdout(tmp_path):
    done = atoll("run", "--method", "fed-avg", *FAST, "--seed", "0", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert {
        "method", "data", "clients", "rounds", "seed", "test_accuracy", "val_accuracy",
        "best_round", "per_client", "seconds_per_round", "bytes_up", "bytes_down", "run_dir",
    } <= set(summary)  # fmt: skip
    assert (summary["method"], summary["data"], summary["clients"]) == ("fed-avg", "patients", 3)
    assert (tmp_path / summary["run_dir"] / "summary.json").is_file()
    assert "3/3" in done.stderr


def test_a_recipe_file_gives_the_same_and_flags_win(tmp_path, here):
    (tmp_path / "recipe.toml").write_text(
        '[data]\nname = "patients"\n[partition]\nname = "random"\nclients = 3\n'
        "[model]\nhidden = 8\n[run]\nrounds = 3\nseed = 7\n"
    )
    by_file = here("run", "recipe.toml", "--seed", "0", "--json")
    by_flags = here("run", *FAST, "--seed", "0", "--json")
    same = ("test_accuracy", "best_round", "per_client", "seed", "rounds")
    one, other = json.loads(by_file.stdout), json.loads(by_flags.stdout)
    assert {key: one[key] for key in same} == {key: other[key] for key in same}


def test_compare_says_whether_joining_pays(tmp_path):
    done = atoll("compare", *FAST, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for method in ("local", "fed-avg", "centralized"):
        assert method in done.stdout
    assert "better than training alone for" in done.stdout
    assert "of 3 clients" in done.stdout


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("methods", ["local", "centralized", "fed-avg"]),
        ("models", ["gcn", "sgc", "sage", "gat", "gamlp", "appnp", "mlp", "module"]),
        ("datasets", ["digits", "patients", "cora", "citeseer", "pubmed"]),
        ("partitions", ["metis", "random", "natural"]),
        ("optimizers", ["sgd", "adam"]),
    ],
)
def test_list_prints_a_line_each(kind, some, here):
    done = here("list", kind)
    assert done.returncode == 0
    for name in some:
        assert any(
            line.split()[:1] == [name] and line.split()[1:] for line in done.stdout.split("\n")
        )


def test_list_with_a_name_shows_options(here):
    done = here("list", "optimizers", "adam")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[0] == "adam"
    [lr] = [line.split() for line in lines if line.startswith("lr ")]
    assert lr[-1] == "0.01"
    assert "Set with: --set optimizer.OPTION=VALUE" in lines


BAD = {
    "an unknown name to list": (["list", "methods", "fed-prxo"], "did you mean 'fed-prox'?"),
    "an unknown dataset to list": (["list", "datasets", "cor"], "did you mean 'cora'?"),
    "an unknown method": (["run", "--method", "fedavg", *FAST], "did you mean 'fed-avg'?"),
    "an unknown dataset": (["run", "--data", "cor"], "did you mean 'cora'?"),
    "an unknown partition": (["run", "--partition", "metsi"], "did you mean 'metis'?"),
    "an unknown model": (["run", "--model", "gcnn"], "did you mean 'gcn'?"),
    "an unknown key": (
        ["run", "--method", "fed-avg", *FAST, "--set", "method.fractoin=1"],
        "'method.fraction'?",
    ),
    "a malformed setting": (["run", *FAST, "--set", "rounds=1"], "section.key=value"),
    "too many clients": (["run", *FAST, "--clients", "1000"], "can't be cut into 1000"),
    "no training node": (
        ["run", *FAST, "--clients", "90", "--set", "split.train=0.01"],
        "no training node",
    ),
    "a missing recipe": (["run", "absent.toml"], "absent.toml"),
    "no run directory": (["resume", "nowhere"], "nowhere"),
    "an unknown table": (["reproduce", "fed-pub/table-22"], "did you mean 'fed-pub/table-2'?"),
    "an unknown row": (["reproduce", "fed-pub/table-2", "--row", "cora-1"], "row of fed-pub"),
    "an output that exists": (["run", *FAST, "--out", "."], "not empty"),
    "an output that can't be made": (["run", *FAST, "--out", "taken/run"], "can't be made"),
}


def test_a_refusal_by_a_real_process(tmp_path):
    done = atoll("run", "--method", "fedavg", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "did you mean 'fed-avg'?" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(case, tmp_path, here):
    (tmp_path / "taken").write_text("a file")
    arguments, sentence = BAD[case]
    done = here(*arguments)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().split("\n")) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["taken"]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("[run\n", "config.toml"),
        ("[run]\nrounds = -1\n", "run.rounds is -1"),
        ("[method]\nname = 'gone'\n", "unknown method 'gone'"),
    ],
)
def test_a_damaged_run_directory_is_one_sentence(config, sentence, tmp_path, here):
    (tmp_path / "config.toml").write_text(config)
    done = here("resume", ".")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


def test_nan_features_are_one_sentence(tmp_path, here):
    (tmp_path / "n.csv").write_text("id,label,age\na,0,1\nb,1,NaN\nc,0,2\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    done = here("run", "--data", "tables", "--set", "data.nodes=n.csv", "--set",
                 "data.edges=e.csv")  # fmt: skip
    assert done.returncode == 2
    assert "'n.csv', column 'age', line 3" in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1


def test_a_model_from_a_file_beside_the_user(tmp_path):
    (tmp_path / "mynet.py").write_text(
        "from torch_geometric.nn import GCN\n"
        "def build(features, classes):\n"
        "    return GCN(features, 8, num_layers=2, out_channels=classes)\n"
    )
    done = subprocess.run(
        [str(Path(sys.executable).with_name("atoll")), "run", "--data", "patients", "--clients",
         "3", "--rounds", "2", "--model", "module", "--set", "model.factory=mynet:build", "--json"],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["model"] == "module"
    config = (tmp_path / summary["run_dir"] / "config.toml").read_text()
    assert 'factory = "mynet:build"' in config


def test_a_wrong_data_folder_is_named(tmp_path):
    done = atoll("run", "--data", "cora", cwd=tmp_path, env=os.environ | {"ATOLL_DATA": "absent"})
    assert done.returncode == 2
    assert "ATOLL_DATA names 'absent'" in done.stderr
    done = atoll(
        "run", "--data", "cora", cwd=tmp_path, env=os.environ | {"ATOLL_DATA": str(tmp_path)}
    )
    assert done.returncode == 2
    assert "is missing" in done.stderr


def test_help_teaches(tmp_path):
    done = atoll("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("run", "compare", "resume", "reproduce", "list"):
        assert command in done.stdout


def test_describe_shows_a_partition_as_table_json_and_picture(tmp_path):
    done = atoll(
        "describe", "--data", "patients", "--clients", "3", "--picture", "p.svg", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "569" in done.stdout
    assert "missing edges" in done.stdout
    assert (tmp_path / "p.svg").stat().st_size > 10_000
    facts = json.loads(
        atoll("describe", "--data", "patients", "--clients", "3", "--json", cwd=tmp_path).stdout
    )
    assert sum(row["nodes"] for row in facts["per_client"]) == facts["nodes"] == 569
    assert facts["missing_edges"] > 0


def test_split_writes_folders_that_train_to_the_same_numbers(tmp_path, here):
    cut = ["--data", "patients", "--partition", "louvain-anchors", "--clients", "3"]
    done = here("split", *cut, "--out", "sites")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "sites").iterdir())) == 3
    fast = ["--rounds", "3", "--set", "model.hidden=8", "--json"]
    whole = here("run", *cut, *fast)
    folders = ["--data", "parties", "--set", "data.folder=sites", "--partition", "natural"]
    sites = here("run", *folders, "--set", "split.kind=public", *fast)
    assert sites.returncode == 0, sites.stderr
    assert json.loads(sites.stdout)["per_client"] == json.loads(whole.stdout)["per_client"]
    again = here("split", *cut, "--out", "sites")
    assert again.returncode == 2
    assert "sites" in again.stderr


def test_an_owner_column_makes_the_clients(tmp_path):
    people = "".join(f"p{i},{i % 2},{i * 0.5 - i % 2},t{i % 3}\n" for i in range(60))
    (tmp_path / "n.csv").write_text("id,label,age,town\n" + people)
    friends = "".join(f"p{i},p{(i + 3) % 60}\n" for i in range(60))
    (tmp_path / "e.csv").write_text("source,target\n" + friends)
    tables = ["--data", "tables", "--set", "data.nodes=n.csv", "--set", "data.edges=e.csv"]
    done = atoll("run", *tables, "--owner", "town", "--rounds", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["clients"], summary["partition"]) == (3, "natural")


def test_fetch_names_what_it_does_not_know(tmp_path):
    done = atoll("fetch", "coar", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'cora'?" in done.stderr


def test_fetch_without_a_name_tells_what_is_missing(tmp_path):
    done = atoll("fetch", cwd=tmp_path, env=os.environ | {"ATOLL_DATA": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "cora: missing" in done.stdout.split("\n")
