"""Clients that stop training, each when its own loss stands still."""

from __future__ import annotations

import torch
from torch import Tensor

from atoll.tree import Params


def not_begun(k: int) -> Params:
    """What each of K clients remembers of its training before the first phase."""
    nothing = torch.full((k,), torch.inf, dtype=torch.float64)
    still = torch.zeros(k, dtype=torch.int64)
    return training(torch.tensor(0), torch.ones(k, dtype=torch.bool), nothing, still)


def training(phase: Tensor, active: Tensor, loss_K: Tensor, still: Tensor) -> Params:
    """The phase a client is in, whether it still trains, its last loss, and for how many rounds
    that has stood still, ``[K]`` each."""
    now = phase.expand(len(active)).clone()
    return {"phase": now, "active": active, "loss": loss_K, "still": still}


def entered(before: Params, phase: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Who trains in a phase, the losses to compare with, and for how many rounds these have stood
    still; a new phase starts all afresh."""
    new = before["phase"] != phase
    last_K = torch.where(new, torch.inf, before["loss"])
    return before["active"] | new, last_K, torch.where(new, 0, before["still"])


def received_by(active: Tensor, received_K: Params, own_K: Params) -> Params:
    """What was received where a client trains, its own model where it has converged."""
    if bool(active.all()):
        return {name: p.clone() for name, p in received_K.items()}
    columns = {name: active.view(-1, *(1,) * (p.dim() - 1)) for name, p in own_K.items()}
    return {name: torch.where(columns[name], received_K[name], p) for name, p in own_K.items()}
