"""``atoll check``, and the run that its config leads to."""

import json
import os
import subprocess
import sys
from pathlib import Path

from fraud_table import write_fraud_table


def atoll(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "atoll", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env=os.environ | {"COLUMNS": "200"},
    )


def test_from_two_tables_to_a_run(tmp_path):
    write_fraud_table(tmp_path, accounts=400, separator=";", decimal=",")
    done = atoll(tmp_path, "check", "accounts.csv", "transfers.csv", "--directed")
    assert done.returncode == 0, done.stderr
    assert "wrote atoll.toml; next: atoll run atoll.toml" in done.stdout
    assert "balance" in done.stdout
    done = atoll(tmp_path, "run", "atoll.toml", "--method", "fed-avg", "--rounds", "2", "--json")
    assert done.returncode == 0, done.stderr
    described = atoll(tmp_path, "describe", "atoll.toml", "--json")
    facts = json.loads(described.stdout)
    assert (facts["nodes"], facts["clients"], facts["directed"]) == (400, 4, True)
    # A config by check is replaced, another is not.
    again = atoll(tmp_path, "check", "accounts.csv", "transfers.csv", "--json")
    assert json.loads(again.stdout)["out"] == "atoll.toml"
    (tmp_path / "mine.toml").write_text("[run]\n")
    done = atoll(tmp_path, "check", "accounts.csv", "transfers.csv", "--out", "mine.toml")
    assert done.returncode == 2
    assert "was not written by atoll check" in done.stderr
    assert (tmp_path / "mine.toml").read_text() == "[run]\n"


def test_tables_that_can_not_be_used_write_nothing(tmp_path):
    (tmp_path / "n.csv").write_text("id,label,age\na,x,1\na,y,2\nc,x,3\n")
    (tmp_path / "e.csv").write_text("source,target\na,c\nc,z\n")
    done = atoll(tmp_path, "check", "n.csv", "e.csv")
    assert done.returncode == 2
    assert "repeat the id" in done.stdout
    assert "'z' in line 3" in done.stdout
    assert not (tmp_path / "atoll.toml").exists()
    found = json.loads(atoll(tmp_path, "check", "n.csv", "e.csv", "--json").stdout)
    assert not found["usable"]
    assert [p["count"] for p in found["problems"] if p["severity"] == "error"] == [1, 1]
