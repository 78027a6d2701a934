"""What an exported module says of a graph, in a process of its own."""

import subprocess
import sys

import torch

from atoll.graph import dense

# Loads a module from a folder and scores a graph, in a process that can't import Atoll.
SCORE = """
import sys, torch
sys.modules["atoll"] = sys.modules["safetensors"] = None
sys.path.insert(0, sys.argv[1])
import model
inputs = torch.load(sys.argv[2])
assert not model.load().training
with torch.no_grad():
    torch.save((model.load()(*inputs), model.CLASSES), sys.argv[3])
"""


def scores(folder, graph, tmp_path, dtype=torch.float32, weights=None):
    inputs, outputs = tmp_path / "inputs.pt", tmp_path / "outputs.pt"
    x, edges = torch.from_numpy(dense(graph.x)).to(dtype), torch.from_numpy(graph.edges)
    torch.save((x, edges) if weights is None else (x, edges, weights), inputs)
    subprocess.run(
        [sys.executable, "-c", SCORE, str(folder), str(inputs), str(outputs)], check=True
    )
    return torch.load(outputs)
