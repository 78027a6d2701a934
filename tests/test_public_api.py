"""The names Atoll exports, so that none appears or vanishes by accident."""

import subprocess
import sys

import atoll


def test_exported_names():
    assert atoll.__all__ == [
        "AtollError", "Callback", "Cohort", "Comparison", "Experiment", "Graph", "Result", "Run",
        "Study", "Tuning", "compare", "embed", "export", "predict", "resume", "run", "study",
        "tune",
    ]  # fmt: skip
    for name in atoll.__all__:
        assert getattr(atoll, name).__name__ == name


def test_importing_atoll_is_quick_and_sets_the_wait_policy():
    code = (
        "import os, sys; os.environ.pop('OMP_WAIT_POLICY', None); import atoll;"
        "assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "PASSIVE"


def test_the_command_line_starts_without_the_heavy_libraries():
    heavy = ("torch", "numpy", "scipy", "polars", "matplotlib")
    code = f"import sys, atoll.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_discovering_everything_leaves_slow_libraries_out():
    code = (
        "import sys; from atoll.experiment.config import resolve; resolve({});"
        "from atoll.data.base import datasets; list(datasets);"
        "assert not {'torch_geometric', 'scipy.stats', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
