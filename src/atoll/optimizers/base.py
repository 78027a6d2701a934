"""What an optimizer is. Each client has its own state and its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from atoll.options import check_options, option
from atoll.registry import Registry
from atoll.tree import Params

optimizers: Registry[Optimizer] = Registry(
    "optimizer", "atoll.optimizers", lambda: Optimizer, "atoll.optimizers"
)


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """Two functions: the state for some parameters, and one step that updates both in place."""

    registered_name: ClassVar[str]
    # Whether an entry depends on its own gradients alone, and stays where it never had one.
    entry_by_entry: ClassVar[bool] = False
    # Whether gradients may come as products that are still to be made.
    takes_products: ClassVar[bool] = False
    lr: float = option(0.01, above=0)
    weight_decay: float = option(0.0, at_least=0)

    def __post_init__(self) -> None:
        check_options("optimizer", self)

    def init(self, params_K: Mapping[str, Tensor]) -> Params:
        """State for parameters ``[K, ...]``; every leaf has a leading K axis."""
        raise NotImplementedError("abstract")

    def step(
        self,
        params_K: Mapping[str, Tensor],
        grads_K: Mapping[str, Any],
        state_K: Mapping[str, Tensor],
        active: Tensor | None = None,
    ) -> None:
        """Update in place. Clients outside ``active [K]`` keep parameters and state untouched."""
        raise NotImplementedError("abstract")

    def in_step(self, state_K: Mapping[str, Tensor]) -> bool:
        """Whether all clients' next step is the same function of parameters and gradients."""
        return True


def client_rows(tensors: list[Tensor], active: Tensor) -> list[Tensor]:
    """The active clients' slices, as views, so that an update in place reaches the stack."""
    return [t[i] for t in tensors for i in torch.nonzero(active).flatten().tolist()]
