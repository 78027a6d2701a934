"""A client's model as files that need torch and torch_geometric, and no Atoll."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save

from atoll.data.table_fitted import FILE as PREPROCESSING
from atoll.errors import AtollError
from atoll.files import folder_names, folder_whole, read_json, write_bytes, write_json, write_text
from atoll.inference.card import card
from atoll.inference.kept import Kept, open_run
from atoll.inference.modules import Source, source_of
from atoll.inference.onnx import require_onnx, write_onnx

_PROGRAM = '''"""A {model} trained with Atoll ({method}): see card.md.

Needs torch and torch_geometric. ``load()`` gives the module with its weights, ready to score:

    scores = load()(x, edge_index)  # [nodes, classes]; softmax gives probabilities

``x [nodes, {features}]`` are features as in training, ``edge_index [2, edges]`` has both directions
of an undirected edge and no loops{weights}.
"""

import json
from pathlib import Path

import torch
from torch import nn
{imports}
CLASSES = {classes!r}
{own_layer}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{layers}

    def forward(self, {arguments}):
{forward}


def load(file=Path(__file__).with_name("weights.safetensors")):
    """The trained module, set to evaluate."""
    content = bytearray(Path(file).read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    weights = {{}}
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            part = content[start + first : start + end]
            weights[name] = torch.frombuffer(part, dtype=torch.{dtype}).view(entry["shape"])
    model = Model().to(torch.{dtype})
    model.load_state_dict(weights)
    return model.eval()
'''


def export(
    run_dir: str | Path | Kept,
    out: str | Path,
    client: str | None = None,
    to: Literal["torch", "onnx"] = "torch",
) -> list[Path]:
    """Write the model of a client, or of each one, and return the folders.

    A folder holds ``model.py``, ``weights.safetensors``, ``card.md`` and, where the data was a
    table, ``preprocessing.json``; ``to="onnx"`` adds ``model.onnx``. Where all clients have the
    same model there is one folder, ``out`` itself; otherwise one per client in it.
    """
    kept, target = open_run(run_dir), Path(out)
    if target.exists():
        raise AtollError(f"'{target}' (--out) exists already; choose another folder.")
    if kept.graphs[0].graph_of is not None:
        raise AtollError(
            f"'{run_dir}' classifies whole graphs, and an exported module classifies nodes; use: "
            f"atoll predict"
        )
    if to == "onnx":
        require_onnx()
    alike = len(kept.names) > 1 and _all_alike(kept)
    if client is not None:
        kept = kept.only(client)
    with folder_whole(target) as part:
        if len(kept.names) == 1 or alike:
            _write(kept, 0, part, alike, to == "onnx")
            return [target]
        folders = folder_names(kept.names)
        for position, folder in enumerate(folders):
            (part / folder).mkdir()
            _write(kept, position, part / folder, alike, to == "onnx")
    return [target / folder for folder in folders]


def _write(kept: Kept, position: int, folder: Path, alike: bool, onnx: bool) -> None:
    model = kept.method.model
    own = {name: p[position] for name, p in kept.params_K.items()}
    weighted = kept.graphs[position].weights is not None
    source = source_of(model, own, weighted)
    write_text(folder / "model.py", program(kept, source))
    weights = {name: w.contiguous().clone() for name, w in source.weights.items()}
    write_bytes(folder / "weights.safetensors", save(weights))
    write_text(folder / "card.md", card(kept, position, alike))
    fitted = kept.folder / PREPROCESSING
    if fitted.is_file():
        name = None if alike else kept.names[position]
        write_json(folder / PREPROCESSING, _of_client(read_json(fitted), name))
    if onnx:
        dtype = getattr(torch, kept.experiment.run.dtype)
        write_onnx(folder, kept.graphs[0].features, dtype, weighted and source.weighted)


def _of_client(fitted: dict[str, Any], name: str | None) -> dict[str, Any]:
    """What was fitted, without the other clients' scales and fillings where it is one client's."""
    for column in fitted["columns"]:
        for what in ("scale", "fill"):
            if name in column.get(what, {}):
                column[what] = {name: column[what][name]}
    return fitted


def program(kept: Kept, source: Source) -> str:
    """The module as a file that stands by itself."""
    imported = f"from torch_geometric.nn import {source.imports}\n" if source.imports else ""
    return _PROGRAM.format(
        model=kept.method.model.registered_name,
        method=kept.experiment.method.registered_name,
        features=kept.graphs[0].features,
        weights=",\n``edge_weight [edges]`` the weights of edges, if they have any"
        if source.weighted
        else "",
        imports=imported,
        classes=kept.class_names,
        own_layer=source.own_layer,
        layers=source.layers,
        arguments=source.arguments,
        forward=source.forward,
        dtype=kept.experiment.run.dtype,
    )


def _all_alike(kept: Kept) -> bool:
    """Whether all clients have the same model."""
    return all(torch.equal(p, p[:1].expand_as(p)) for p in kept.params_K.values())
