"""The plain loop that people write with PyTorch Geometric: one client after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.nn import GCNConv

from beside.parts import Part, read_parts
from beside.worker import Gate, Order, serve

Scores = tuple[float, float]


class Net(torch.nn.Module):
    """Two graph convolutions, with a linear classifier on top or without."""

    def __init__(self, features: int, hidden: int, classes: int, linear: bool) -> None:
        super().__init__()
        self.conv1 = GCNConv(features, hidden)
        self.conv2 = GCNConv(hidden, hidden if linear else classes)
        self.classifier = torch.nn.Linear(hidden, classes) if linear else None

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        h = dropout(self.conv1(x, edges).relu(), training=self.training)
        h = self.conv2(h, edges)
        if self.classifier is None:
            return h
        return self.classifier(dropout(h.relu(), training=self.training))


def plain_loop(
    parts: Sequence[Part],
    hidden: int = 128,
    linear: bool = True,
    lr: float = 0.01,
    decay: float = 0.0,
    epochs: int = 1,
    mu: float = 0.0,
) -> Callable[[], Scores]:
    """A round of FedAvg, or of FedProx with ``mu`` above zero: its mean accuracies over clients."""
    clients = []
    for part in parts:
        net = Net(part.dense.shape[1], hidden, part.classes, linear)
        adam = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=decay)
        tensors = (torch.from_numpy(a) for a in (part.dense, part.edges, part.y))
        masks = [torch.from_numpy(mask) for mask in (part.train, part.val, part.test)]
        clients.append((net, adam, *tensors, masks))
    weights = torch.tensor([float(part.train.sum()) for part in parts])
    weights /= weights.sum()
    state = {name: value.clone() for name, value in clients[0][0].state_dict().items()}

    def pull(net: Net) -> Tensor:
        return sum((p - state[name]).square().sum() for name, p in net.named_parameters())

    def one_round() -> Scores:
        nonlocal state
        sums = {name: torch.zeros_like(value) for name, value in state.items()}
        scores = []
        for weight, (net, adam, x, edges, y, masks) in zip(weights, clients, strict=True):
            net.load_state_dict(state)
            net.train()
            for _ in range(epochs):
                adam.zero_grad()
                loss = cross_entropy(net(x, edges)[masks[0]], y[masks[0]])
                (loss + mu / 2 * pull(net) if mu else loss).backward()
                adam.step()
            net.eval()
            with torch.no_grad():
                right = (net(x, edges).argmax(1) == y).float()
                scores.append([right[mask].mean().item() for mask in masks])
                for name, value in net.state_dict().items():
                    sums[name] += weight * value
        state = sums
        _, val, test = np.nanmean(scores, axis=0)
        return float(val), float(test)

    return one_round


def play(path: Path, case: Order, gate: Gate) -> None:
    torch.manual_seed(0)
    started = time.perf_counter()
    settings: dict[str, Any] = {key: case[key] for key in ("hidden", "lr", "decay", "epochs")}
    mu = case["options"].get("mu", 0.0)
    one_round = plain_loop(read_parts(path), linear=False, mu=mu, **settings)
    gate.open(time.perf_counter() - started)
    while True:
        gate.passed(*one_round())


if __name__ == "__main__":
    serve(play, lambda: {name: version(name) for name in ("torch", "torch_geometric")})
