"""The peer's environment: a virtual environment in a cache folder, made once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from atoll.errors import AtollError

OPENFGL = "openfgl-lib==1.1.0"
# Declared by the package is `requests` alone; these are what the compared methods import.
NEEDED = (
    "torch",
    "torch_geometric",
    "scikit-learn",
    "networkx",
    "scikit-network",
    "pymetis",
    "munkres",
    "tqdm",
)
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atoll" / "peers"


def peer_python(cache: Path, checkout: Path | None) -> Path:
    """The interpreter that has what OpenFGL needs, and OpenFGL itself unless there is a checkout.

    torch and all else are of the versions that Atoll itself is measured with.
    """
    packages = NEEDED if checkout else (OPENFGL, *NEEDED)
    recipe = "\n".join((*packages, sys.version, CONSTRAINTS.read_text()))
    folder = cache / f"openfgl-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.is_file():
        print(f"making an environment for OpenFGL in {folder}; once, some minutes", flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
              "-c", str(CONSTRAINTS), *packages])  # fmt: skip
        done.touch()
    return python


def checked(checkout: Path) -> Path:
    """A checkout of OpenFGL: a folder with its package in it."""
    if not (checkout / "openfgl" / "flcore").is_dir():
        raise AtollError(
            f"'{checkout}' is no checkout of OpenFGL: it has no folder openfgl/flcore; "
            f"check the path."
        )
    return checkout.resolve()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise AtollError(
            f"the environment for OpenFGL can't be made ({' '.join(last)}); see that the package "
            f"index can be reached, or leave it out with --without openfgl."
        )
