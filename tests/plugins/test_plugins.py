"""A user's own file: run, kept, resumed, refused when it has changed, never run by looking."""

import json
import shutil
import signal
import tomllib
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import atoll
from atoll import plugins
from atoll import registry as registry_module
from atoll.experiment.config import describe, resolve
from atoll.experiment.runner import read_experiment
from atoll.methods.base import methods
from atoll.methods.global_model import GlobalModel
from atoll.registry import Registry
from plugin_files import fed_avgm, sha256, trap

SMALL = ("--data", "patients", "--clients", "3", "--rounds", "3", "-q")


def test_a_file_of_ones_own_runs_and_its_address_and_digest_are_kept(here, tmp_path):
    file = fed_avgm(tmp_path)
    done = here("run", "--method", "./mine.py:FedAvgM", *SMALL, "--out", "r", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "fed-avgm"
    kept = tomllib.loads((tmp_path / "r" / "config.toml").read_text())["method"]
    assert (kept["name"], kept["sha256"]) == (f"{file}:FedAvgM", sha256(file))
    assert kept["momentum"] == 0.9
    assert (tmp_path / "r" / "plug-ins" / "mine.py").read_text() == file.read_text()


def test_interrupted_and_resumed_it_gives_the_same_bytes(tmp_path):
    address = f"{fed_avgm(tmp_path)}:FedAvgM"
    choices = {"data": "patients", "clients": 3, "rounds": 4, "method": address}
    atoll.run(**choices, out=tmp_path / "whole")
    stop = lambda r, _: signal.raise_signal(signal.SIGINT) if r == 2 else None  # noqa: E731
    with pytest.raises(atoll.AtollError, match="interrupted after round 2"):
        atoll.run(**choices, out=tmp_path / "cut", progress=stop)
    atoll.resume(tmp_path / "cut")
    final = [(tmp_path / n / "parameters.safetensors").read_bytes() for n in ("whole", "cut")]
    assert final[0] == final[1]


def test_a_changed_file_is_said_and_its_kept_copy_mends_it(here, tmp_path, monkeypatch):
    file = fed_avgm(tmp_path)
    here("run", "--method", "./mine.py:FedAvgM", *SMALL, "--out", "r")
    monkeypatch.setattr(plugins, "_origins", {})  # as in another process
    monkeypatch.setattr(plugins, "_modules", {})
    file.write_text(file.read_text().replace("0.9", "0.8"))
    refused = here("resume", "r")
    assert refused.returncode == 2
    assert "mine.py' has changed" in refused.stderr
    assert "plug-ins" in refused.stderr
    shutil.copy(tmp_path / "r" / "plug-ins" / "mine.py", file)
    assert here("resume", "r").returncode == 0


def test_a_config_names_it_relative_to_itself(here, tmp_path):
    (tmp_path / "study").mkdir()
    file = fed_avgm(tmp_path / "study")
    (tmp_path / "study" / "my.toml").write_text(
        '[method]\nname = "./mine.py:FedAvgM"\nmomentum = 0.5\n'
    )
    done = here("run", "study/my.toml", *SMALL, "--out", "r")
    assert done.returncode == 0, done.stderr
    kept = tomllib.loads((tmp_path / "r" / "config.toml").read_text())["method"]
    assert (kept["name"], kept["momentum"]) == (f"{file}:FedAvgM", 0.5)


def test_compare_names_it_by_its_name_also_in_processes_of_their_own(here, tmp_path):
    fed_avgm(tmp_path)
    done = here(
        *("compare", "--methods", "local,./mine.py:FedAvgM", "--seeds", "2", "--jobs", "2"),
        *(*SMALL, "--out", "c", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c" / "fed-avgm" / "seed-1" / "summary.json").is_file()


@pytest.mark.parametrize(
    ("text", "address", "said"),
    [
        (None, "./none.py:X", "there is no file"),
        ("class X:\n    pass\n", "./x.py:X", "is no method (line 1); it must be a class derived"),
        ("x = 1\nclass Y(:\n", "./x.py:X", "x.py', line 2: invalid syntax"),
        ("x = 1\n\nprint(undefined)\n", "./x.py:X", "x.py', line 3: NameError"),
        ("class Mine:\n    pass\n", "./x.py:Mini", "has no 'Mini': did you mean 'Mine'?"),
        ("import no_such_thing\n", "./x.py:X", "line 1: No module named 'no_such_thing'"),
        ("import sys\nsys.exit(0)\n", "./x.py:X", "line 2: SystemExit"),
        ("x = 1\n", "./x.py:", "is no address"),
    ],
)
def test_mistakes_are_one_sentence_with_file_and_line(here, tmp_path, text, address, said):
    if text is not None:
        (tmp_path / "x.py").write_text(text)
    done = here("run", "--method", address, *SMALL)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_script_that_runs_at_once_is_not_run_by_reading_it(here, tmp_path):
    (tmp_path / "x.py").write_text(
        "import atoll\nfrom atoll.methods.fed_avg import FedAvg\n\n\n"
        "class X(FedAvg):\n    pass\n\n\natoll.run(method=X, data='patients')\n"
    )
    done = here("run", "--method", "./x.py:X", *SMALL)
    assert done.returncode == 2
    assert "x.py', line 9" in done.stderr
    assert "__main__" in done.stderr


@pytest.mark.parametrize("section", ["method", "task", "optimizer", "partition", "data"])
def test_looking_at_a_run_from_elsewhere_runs_nothing(here, tmp_path, section):
    assert here("run", "--method", "fed-avg", *SMALL, "--out", "r").returncode == 0
    file, mark = trap(tmp_path)
    config = tmp_path / "r" / "config.toml"
    lines = config.read_text().splitlines()
    at = lines.index(f"[{section}]")
    lines[at + 1] = f'name = "{file}:Evil"'
    config.write_text("\n".join(lines))
    audited = here("audit", "r")
    assert audited.returncode == 0, audited.stderr
    assert "model" in audited.stdout
    assert not mark.exists()
    assert here("resume", "r").returncode == 2  # a command that runs does load it
    assert mark.exists()


def test_an_audit_does_not_claim_what_an_unread_plug_in_declares(here, tmp_path):
    fed_avgm(tmp_path)
    here("run", "--method", "./mine.py:FedAvgM", *SMALL, "--out", "r")
    shown = here("audit", "r").stdout
    assert "not known here" in shown
    assert "Never leaves a site" not in shown


class FromPython(GlobalModel):
    """Not even decorated."""


@pytest.mark.parametrize("given", [FromPython, "instance"])
def test_a_class_or_an_object_from_python_is_kept_by_its_address(tmp_path, given):
    if given == "instance":
        given = methods.adopted(FromPython)()
    result = atoll.run(method=given, data="patients", clients=3, rounds=2, out=tmp_path / "r")
    kept = tomllib.loads((tmp_path / "r" / "config.toml").read_text())["method"]
    assert kept["name"] == f"{__file__}:FromPython"
    assert result.experiment.method.registered_name == "from-python"
    assert type(read_experiment(tmp_path / "r").method) is FromPython


def test_a_torch_module_is_a_model_by_its_address(here, tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n"
        "    def __init__(self, features, classes):\n        super().__init__()\n"
        "        self.layer = nn.Linear(features, classes)\n\n"
        "    def forward(self, x, edge_index):\n        return self.layer(x)\n"
    )
    done = here("run", "--method", "fed-avg", "--model", "./net.py:Net", *SMALL, "--out", "r")
    assert done.returncode == 0, done.stderr
    kept = tomllib.loads((tmp_path / "r" / "config.toml").read_text())["model"]
    assert kept == {
        "name": "module",
        "factory": f"{tmp_path / 'net.py'}:Net",
        "sha256": sha256(tmp_path / "net.py"),
    }
    assert here("predict", "r", "--out", "p.csv").returncode == 0


NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.layer = nn.Linear(features, classes, bias={bias})

    def forward(self, x, edge_index):
        return self.layer(x)
"""


def test_a_model_s_file_that_changes_during_a_run_changes_nothing(tmp_path):
    """Nor one that is exchanged between the look at its SHA-256 and its use."""
    file = tmp_path / "net.py"
    file.write_text(NET.format(bias=True))
    model = {"name": "module", "factory": f"{file}:Net", "sha256": sha256(file)}
    experiment = resolve({"model": model})
    before = describe(experiment)["model"]
    file.write_text(NET.format(bias=False))
    made = experiment.method.model.init(3, 2, np.random.default_rng(0))
    assert list(made) == ["layer.weight", "layer.bias"]
    assert describe(experiment)["model"] == before == model
    with pytest.raises(atoll.AtollError, match="has changed"):
        resolve({"model": model | {"sha256": "0" * 64}})


def test_looking_at_a_run_whose_model_is_a_file_from_elsewhere_runs_nothing(here, tmp_path):
    assert here("run", "--method", "fed-avg", *SMALL, "--out", "r").returncode == 0
    file, mark = trap(tmp_path)
    config = tmp_path / "r" / "config.toml"
    before, _, after = config.read_text().partition("[model]\n")
    rest = after[after.index("\n[") :]
    model = f'[model]\nname = "module"\nfactory = "{file}:Evil"\nsha256 = "{sha256(file)}"\n'
    config.write_text(before + model + rest)
    for look in (("audit", "r"), ("status", "r"), ("list", "methods")):
        here(*look)
    assert not mark.exists()


class Distribution:
    name, version = "fed-package", "1.2"


def offering(monkeypatch, value):
    """A registry of methods as it is where a package offers one."""
    entry = EntryPoint("fed-offered", value, "atoll.methods")

    entry.__dict__["dist"] = Distribution()
    monkeypatch.setattr(registry_module, "offered", lambda group: {"fed-offered": entry})
    return Registry("method", "atoll.methods", methods.base, "atoll.methods")


def test_an_installed_packages_components_are_listed_with_their_package(monkeypatch):
    found = offering(monkeypatch, "plugins_offered:FedOffered")
    assert found.offered_by("fed-offered") == "fed-package 1.2"
    assert "fed-offered" in list(found)
    assert "can't be imported" in found.summaries()["fed-offered"]
