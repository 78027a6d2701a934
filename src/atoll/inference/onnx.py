"""An exported module as an ONNX file, for runtimes without torch."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import torch

from atoll.errors import AtollError

_OPSET = 17
_NEEDED = ("torch_geometric", "onnx")


def require_onnx() -> None:
    """Refuse before anything is written where a package is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise AtollError(
            f"--to onnx needs {missing[0]}, which is not installed; install atoll with the extra "
            f"'export'."
        )


def write_onnx(folder: Path, features: int, dtype: torch.dtype, weighted: bool) -> None:
    """``model.onnx`` beside a folder's ``model.py``: ``x, edge_index -> scores``, of any size.

    Where edges are ``weighted`` there is a third input, ``edge_weight``.
    """
    module = _imported(folder / "model.py").load()
    x = torch.zeros(3, features, dtype=dtype)
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    inputs, given = ["x", "edge_index"], [x, edges]
    axes = {"x": {0: "nodes"}, "edge_index": {1: "edges"}, "scores": {0: "nodes"}}
    if weighted:
        inputs, given = [*inputs, "edge_weight"], [*given, torch.ones(4, dtype=dtype)]
        axes["edge_weight"] = {0: "edges"}
    with warnings.catch_warnings():
        # The newer exporter can't follow graphs whose number of edges is open.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(given),
            str(folder / "model.onnx"),
            input_names=inputs,
            output_names=["scores"],
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )


def _imported(program: Path) -> ModuleType:
    module = ModuleType("exported_model")
    module.__file__ = str(program)
    exec(compile(program.read_text(), program, "exec"), module.__dict__)
    return module
