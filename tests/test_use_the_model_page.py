"""The page on using a model works as it stands."""

import json
import re
import shlex
from pathlib import Path

import polars
import pytest

from test_your_own_graph_page import execute

PAGE = (Path(__file__).parents[1] / "docs" / "use-the-model.md").read_text()
MAKE, USE_MODULE, USE_PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = [
    shlex.split(block.replace("\\\n", " ")) for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where all commands of the page have been run."""
    home = tmp_path_factory.mktemp("page")
    (home / "make_accounts.py").write_text(MAKE)
    for program, *arguments in COMMANDS:
        start = [] if program == "python" else ["-m", "atoll"]
        done = execute([*start, *arguments], home)
        assert done.returncode == 0, done.stderr
    return home


def test_scores_of_the_runs_own_nodes(folder):
    scores = polars.read_csv(folder / "scores.csv")
    assert scores.columns == ["id", "client", "predicted", "p_fine", "p_fraud"]
    truth = polars.read_csv(folder / "accounts.csv").select("id", "label")
    right = scores.join(truth, on="id").select(polars.col("predicted") == polars.col("label"))
    assert scores.height == 400
    assert right["predicted"].mean() > 0.75


def test_scores_of_new_nodes(folder):
    scores = polars.read_csv(folder / "new_scores.csv")
    new = polars.read_csv(folder / "new_accounts.csv").select("id", "bank")
    assert scores.height == 40
    joined = scores.join(new, on="id")
    assert joined["client"].to_list() == joined["bank"].to_list()


def test_embeddings_and_the_exported_folder(folder):
    embeddings = polars.read_parquet(folder / "embeddings.parquet")
    assert embeddings.shape == (400, 2 + 128)
    assert sorted(path.name for path in (folder / "north").iterdir()) == [
        "card.md", "model.py", "preprocessing.json", "weights.safetensors",
    ]  # fmt: skip
    fitted = json.loads((folder / "north" / "preprocessing.json").read_text())
    assert fitted["feature_names"] == ["balance", "kind=private", "kind=shop"]


@pytest.mark.parametrize(
    ("script", "said"), [(USE_MODULE, "('fine', 'fraud')"), (USE_PYTHON, "40 130")]
)
def test_python_examples_run(script, said, folder):
    done = execute(["-c", script], folder)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
