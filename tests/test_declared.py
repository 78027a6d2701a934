"""What is read off the source is what registering gives, and takes no torch."""

import subprocess
import sys
from importlib import import_module

import pytest

from atoll.cli.data import _REGISTRIES
from atoll.report.components import declared_facts, names_facts


@pytest.mark.parametrize("kind", _REGISTRIES)
def test_declared_is_what_is_registered(kind):
    module, _ = _REGISTRIES[kind]
    registered = names_facts(getattr(import_module(module), kind))
    assert declared_facts(module.split(".")[1], kind) == registered
    assert registered


def test_listing_names_loads_no_torch():
    code = (
        "import sys\nfrom atoll.cli import app\n"
        "app(['list', 'methods'], standalone_mode=False)\nassert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fed-avg" in done.stdout
