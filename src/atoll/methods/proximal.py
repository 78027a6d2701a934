"""The pull towards the last global model, and a strength that follows the loss."""

from __future__ import annotations

import torch
from torch import Tensor

from atoll.tree import Params


def first_pull(mu: float) -> Params:
    """The strength before the first round, when no loss is known and none has fallen yet."""
    values = {"mu": mu, "loss": torch.inf, "falls": 0.0}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def adapted(pull: Params, loss: Tensor) -> Params:
    """The next mu, given the last loss, how often it has fallen in a row, and the new loss.

    FedProx's heuristic as Fed-GALA's thesis states it: 0.1 less after 5 falls in a row, 0.1 more
    whenever the loss rises. mu stays at or above 0, and a row of 5 is used up by its step.
    """
    falls = pull["falls"] + 1 if loss < pull["loss"] else torch.zeros_like(pull["falls"])
    mu = pull["mu"]
    if loss > pull["loss"]:
        mu = mu + 0.1
    elif falls >= 5:
        mu, falls = (mu - 0.1).clamp(min=0.0), torch.zeros_like(falls)
    return {"mu": mu, "loss": loss, "falls": falls}


def without_effect(mu: float, epochs: int) -> list[str]:
    """A remark where a pull towards the received model can't act: it is zero at that model."""
    if mu == 0 or epochs > 1:
        return []
    return ["the proximal pull had no effect, since it is zero where a client's only local step "
            "begins; set method.epochs to 2 or more."]  # fmt: skip
