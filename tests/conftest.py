"""What several tests need."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    """Run in an empty folder, so that run directories land there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
