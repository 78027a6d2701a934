"""The commands compare and resume as a user meets them."""

import json
import sys

import pytest

from atoll.cli import main

FAST = ["compare", "--data", "patients", "--partition", "random", "--clients", "3", "--rounds",
        "2", "--set", "model.hidden=4", "--methods", "local,fed-avg"]  # fmt: skip


@pytest.fixture
def command(in_tmp, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["atoll", *arguments])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_one_seed_shows_its_runs_and_several_show_verdicts(command):
    code, out, _ = command(*FAST, "--out", "c")
    assert code == 0
    assert "sent up" in out
    assert "Joining (fed-avg) was better than training alone for" in out
    assert out.endswith("kept in c\n")
    code, out, err = command(*FAST, "--seeds", "3", "--sites", "all", "--out", "c")
    assert code == 0
    for part in ("seeds 0 to 2", "difference to local", "client 2", "of 3 sites gained"):
        assert part in out
    assert "12/12" in err
    assert command("resume", "c", "--sites", "all")[1] == out


def test_two_seeds_are_said_to_be_too_few(command):
    code, out, _ = command(*FAST, "--seeds", "2")
    assert code == 0
    assert "2 is too few seeds for intervals and verdicts" in out


def test_json_has_the_same_keys_for_one_method_and_seed(command):
    one = json.loads(command(*FAST[:-1], "local", "--json")[1])
    many = json.loads(command(*FAST, "--seeds", "3", "--json")[1])
    assert one.keys() == many.keys()
    assert (len(one["runs"]), len(many["runs"])) == (1, 6)
    assert one["runs"][0].keys() == many["runs"][0].keys()
    assert [site["site"] for site in many["sites"]] == ["client 0", "client 1", "client 2"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--seeds", "0"], "--seeds is 0; it must be at least 1."),
        (["--seeds", "-2"], "--seeds is -2; it must be at least 1."),
        (["--jobs", "0"], "--jobs is 0; it must be at least 1."),
        (["--sites", "some"], "unknown value of --sites: 'some': there is: all, best."),
        (["--out", "taken"], "'taken' is a file; choose another --out."),
        (["--out", "."], "'.' holds something else than a comparison; choose another --out."),
    ],
)
def test_mistakes_are_one_sentence(wrong, says, command, in_tmp):
    (in_tmp / "taken").touch()
    assert command(*FAST, *wrong) == (2, "", f"atoll: {says}\n")
    assert [path.name for path in in_tmp.iterdir()] == ["taken"]
