"""What people try in their first minutes: versions, help, quiet, short names, wrong numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atoll.cohort import Cohort
from atoll.experiment.choices import choose
from atoll.experiment.config import describe, merged
from small_federations import community_parties

FAST = ["--data", "patients", "--clients", "3", "--rounds", "2", "--set", "model.hidden=8"]


def test_version_names_what_a_report_of_a_bug_needs(here):
    done = here("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("atoll ")
    assert "torch 2" in done.stdout
    assert f"python {sys.version.split()[0]}" in done.stdout


def test_version_loads_no_torch():
    code = (
        "import sys, atoll.cli; sys.argv = ['atoll', '--version']\n"
        "try: atoll.cli.main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["keys"], ["status"]])
def test_h_is_help_everywhere(command, here):
    short, long = here(*command, "-h"), here(*command, "--help")
    assert short.returncode == long.returncode == 0
    assert short.stdout == long.stdout
    assert "Usage" in short.stdout


def test_quiet_leaves_results_on_stdout_and_nothing_on_stderr(here):
    loud, quiet = here("run", *FAST), here("run", *FAST, "--quiet")
    assert "2/2" in loud.stderr
    assert quiet.returncode == 0
    assert quiet.stderr == ""
    assert "test accuracy" in quiet.stdout
    assert "2/2" in here("run", *FAST).stderr  # it does not last


def test_quiet_still_says_what_is_wrong(here):
    done = here("run", "--method", "fedavg", "-q")
    assert done.returncode == 2
    assert "did you mean 'fed-avg'?" in done.stderr


def test_the_shell_completes_commands_and_options(tmp_path):
    asked = {"_ATOLL_COMPLETE": "complete_bash", "COMP_WORDS": "atoll re", "COMP_CWORD": "1"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("atoll"))],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | asked, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["resume", "reproduce", "report"]


def test_list_as_json(here):
    names = json.loads(here("list", "datasets", "--json").stdout)
    [cs] = [entry for entry in names if entry["name"] == "coauthor-cs"]
    assert cs["aliases"] == ["cs"]
    assert "computer scientists" in cs["summary"]
    adam = json.loads(here("list", "optimizers", "adam", "--json").stdout)
    assert {"name": "lr", "values": "float, above 0", "default": "0.01"} in adam["options"]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("photo", "amazon-photo"),
        ("computers", "amazon-computers"),
        ("cs", "coauthor-cs"),
        ("physics", "coauthor-physics"),
    ],
)
def test_a_short_name_is_kept_as_the_long_one(short, long):
    assert describe(choose(data=short)) == describe(choose(data=long))
    assert describe(choose(data=short))["data"]["name"] == long


def test_a_short_name_keeps_the_options_that_a_recipe_has_for_the_long_one():
    recipe = {"data": {"name": "amazon-photo", "normalise": False}}
    assert merged(recipe, {"data": {"name": "photo"}}) == recipe


WRONG = {
    "negative seeds": (["reproduce", "fed-pub/table-2", "--seeds", "-1"], "--seeds is -1"),
    "no seeds": (["reproduce", "fed-pub/table-2", "--seeds", "0"], "--seeds is 0"),
    "an --out that is a file": (["run", *FAST, "--out", "taken"], "'taken' is a file"),
    "results in a file": (["reproduce", "fed-pub/table-2", "--out", "taken"], "'taken' is a file"),
    "results below a file": (["reproduce", "fed-pub/table-2", "--out", "taken/x"], "no 'taken/x'"),
    "kits in a file": (["keys", "--sites", "a", "--server", "h:1", "--out", "taken"], "is a file"),
    "parties in a file": (["split", *FAST[:4], "--out", "taken"], "'taken' is a file"),
    "a misspelt short name": (["list", "datasets", "phoot"], "did you mean 'photo'?"),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_sentence_and_nothing_written(case, tmp_path, here):
    (tmp_path / "taken").write_text("a file")
    arguments, sentence = WRONG[case]
    done = here(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_graphs_and_cohorts_are_shown_by_their_sizes():
    parties = community_parties((19, 25))
    assert repr(parties[0]) == (
        f"<Graph 'party 0': 19 nodes, {parties[0].edges.shape[1]} directed edges, 24 features, "
        f"3 classes; {parties[0].train.sum()} train, {parties[0].val.sum()} val, "
        f"{parties[0].test.sum()} test>"
    )
    assert repr(Cohort(parties)) == (
        "<Cohort of 2 clients: 44 nodes, 24 features, 3 classes, float32>"
    )


def test_a_result_is_shown_by_what_it_is_of_and_its_score(in_tmp):
    import atoll

    result = atoll.run(method="fed-avg", data="patients", clients=3, rounds=2, out="here")
    assert repr(result) == (
        f"<Result fed-avg on patients, 3 clients, seed 0: test accuracy "
        f"{result.test_accuracy:.4f} (round {result.best_round}), in 'here'>"
    )
