"""What several tests need."""

import os
import subprocess
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    """Run in an empty folder, so that run directories land there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """The command line within this process, in a folder of its own: as quick as its work."""

    from atoll.cli import main

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["atoll", *arguments])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return run
