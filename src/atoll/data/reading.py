"""Reading raw files without trusting them: what does not fit is named in one sentence."""

from __future__ import annotations

import pickle
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy import sparse

from atoll.errors import AtollError
from atoll.graph import Features

# Above this share of non-zeros a sparse matrix takes more memory than a dense one.
_DENSE_ABOVE = 0.5

# What numpy, scipy, zipfile, json and pickle raise on files that are not what they should be.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def readable(path: Path, layout: str) -> Iterator[None]:
    """Whatever goes wrong in reading a raw file becomes one sentence that names it."""
    try:
        yield
    except DAMAGE as problem:
        reason = first_line(problem.args[0] if problem.args else problem)
        raise AtollError(
            f"'{path}' can't be read as {layout} ({reason or type(problem).__name__}); replace it, "
            f"or delete it and fetch it anew."
        ) from problem


def first_line(problem: object) -> str:
    """The first line of a library's message, to stand in a sentence of ours."""
    return str(problem).strip().partition("\n")[0].rstrip(".")


def existing_file(path: str | Path, option: str, kind: str, of_what: str) -> Path:
    """The user's own file that ``data.<option>`` names."""
    if not str(path):
        raise AtollError(f"data.{option} is not given; set it to the {kind} file of {of_what}.")
    file = Path(path)
    if file.is_dir():
        raise AtollError(f"'{file}' (data.{option}) is a folder; name the {kind} file in it.")
    if not file.is_file():
        raise AtollError(f"there is no file '{file}' (data.{option}); check the path.")
    return file


def checked_edges(edges: np.ndarray, nodes: int) -> np.ndarray:
    """Edges ``[2, e]`` between existing nodes; node numbers beyond the last are damage."""
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(f"its edges are no pairs of node numbers but {edges.dtype}{edges.shape}")
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise ValueError(f"its edges name nodes outside 0 to {nodes - 1}")
    return edges


def checked_labels(labels: np.ndarray, nodes: int) -> np.ndarray:
    """Labels ``[n]``; another length or kind is damage."""
    if labels.shape != (nodes,) or labels.dtype.kind not in "iu":
        raise ValueError(f"its labels are {labels.dtype}{labels.shape} for {nodes} nodes")
    return labels


def checked_csr(parts: Sequence[np.ndarray], shape: np.ndarray | Sequence[int]) -> sparse.csr_array:
    """The CSR matrix of ``data``, ``indices`` and ``indptr``; what does not fit is damage."""
    matrix = sparse.csr_array(tuple(parts), shape=tuple(int(size) for size in shape))
    matrix.check_format(full_check=True)
    return matrix


def compact(x: np.ndarray) -> Features:
    """Features as float32, sparse where that is smaller."""
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise ValueError(f"its features are no table of numbers but {x.dtype}{x.shape}")
    if np.count_nonzero(x) > _DENSE_ABOVE * x.size:
        return x.astype(np.float32)
    return sparse.csr_array(x).astype(np.float32)
