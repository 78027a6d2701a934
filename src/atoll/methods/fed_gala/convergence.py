"""Clients that stop training, each when its own loss stands still."""

from __future__ import annotations

import torch
from torch import Tensor

from atoll.tree import Params


def not_begun(k: int) -> Params:
    """What each of K clients remembers of its training before the first phase."""
    nothing = torch.full((k,), torch.inf, dtype=torch.float64)
    return training(torch.tensor(0), torch.ones(k, dtype=torch.bool), nothing)


def training(phase: Tensor, active: Tensor, loss_K: Tensor) -> Params:
    """The phase a client is in, whether it still trains, and its last loss, ``[K]`` each."""
    return {"phase": phase.expand(len(active)).clone(), "active": active, "loss": loss_K}


def entered(before: Params, phase: Tensor) -> tuple[Tensor, Tensor]:
    """Who trains in a phase, and the losses to compare with; a new phase starts both afresh."""
    new = before["phase"] != phase
    return before["active"] | new, torch.where(new, torch.inf, before["loss"])


def received_by(active: Tensor, received_K: Params, own_K: Params) -> Params:
    """What was received where a client trains, its own model where it has converged."""
    if bool(active.all()):
        return {name: p.clone() for name, p in received_K.items()}
    columns = {name: active.view(-1, *(1,) * (p.dim() - 1)) for name, p in own_K.items()}
    return {name: torch.where(columns[name], received_K[name], p) for name, p in own_K.items()}
