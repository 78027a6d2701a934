"""Adam."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam as adam_update

from atoll.kernels import array, fit, kernels
from atoll.kernels.sharing import share
from atoll.ops.written_out import ProductGradient
from atoll.optimizers.base import Optimizer, client_rows, optimizers
from atoll.options import option
from atoll.tree import Params

# An entry is moved between memory and processor six times: as long as so many operations.
PER_ENTRY = 100.0
_NO_ROWS = np.zeros(1, dtype=np.int64)


@optimizers.register("adam")
@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), fused; weight decay is added to the gradient, as in torch."""

    entry_by_entry: ClassVar[bool] = True
    takes_products: ClassVar[bool] = True

    beta1: float = option(0.9, at_least=0, below=1)
    beta2: float = option(0.999, at_least=0, below=1)
    eps: float = option(1e-8, above=0)

    def init(self, params_K: Mapping[str, Tensor]) -> Params:
        state: Params = {}
        for name, p in params_K.items():
            state[f"mean.{name}"] = torch.zeros_like(p)
            state[f"square.{name}"] = torch.zeros_like(p)
        k = next(iter(params_K.values())).shape[0]
        state["steps"] = torch.zeros(k, dtype=torch.float32)
        return state

    def in_step(self, state_K: Mapping[str, Tensor]) -> bool:
        steps = state_K["steps"].cpu().numpy()
        return bool((steps == steps[0]).all())

    @torch.no_grad()
    def step(
        self,
        params_K: Mapping[str, Tensor],
        grads_K: Mapping[str, Any],
        state_K: Mapping[str, Tensor],
        active: Tensor | None = None,
    ) -> None:
        steps = state_K["steps"]
        together = active is None or bool(active.all())
        in_step = together and self.in_step(state_K)
        number = int(steps[0]) + 1
        products = {n: g for n, g in grads_K.items() if isinstance(g, ProductGradient)}
        for name, g in products.items():
            moments = state_K[f"mean.{name}"], state_K[f"square.{name}"]
            if in_step and fit(params_K[name], *moments, g.errors, g.matrix.values):
                self._compiled_product(params_K[name], g, *moments, number)
            else:
                grads_K = {**grads_K, name: g.made()}
        names = [n for n in params_K if not isinstance(grads_K[n], ProductGradient)]
        columns = [
            [params_K[n] for n in names],
            [grads_K[n] for n in names],
            [state_K[f"mean.{n}"] for n in names],
            [state_K[f"square.{n}"] for n in names],
        ]
        numbers = [number] * len(names)
        if not in_step:
            chosen = torch.ones_like(steps, dtype=torch.bool) if active is None else active
            columns = [client_rows(tensors, chosen) for tensors in columns]
            numbers = [int(taken) + 1 for taken in steps[chosen].tolist()] * len(names)
        if all(map(fit, *columns)):
            for entries in zip(*columns, numbers, strict=True):
                self._compiled(*entries)
        else:
            self._by_torch(columns, [steps.new_tensor(n - 1) for n in numbers])
        steps += 1 if together or active is None else active.to(steps.dtype)

    def _by_torch(self, columns: list[list[Tensor]], clocks: list[Tensor]) -> None:
        params, grads, means, squares = columns
        adam_update(
            params,
            grads,
            means,
            squares,
            [],
            clocks,
            fused=True,
            amsgrad=False,
            beta1=self.beta1,
            beta2=self.beta2,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=self.eps,
            maximize=False,
        )

    def _compiled(self, p: Tensor, grad: Tensor, mean: Tensor, square: Tensor, number: int) -> None:
        arrays = (array(t).reshape(-1) for t in (p, grad, mean, square))
        step = partial(kernels("adam").adam, *arrays, *self.settings, number)
        share(step, p.numel(), PER_ENTRY * p.numel())

    def _compiled_product(
        self, p: Tensor, grad: ProductGradient, mean: Tensor, square: Tensor, number: int
    ) -> None:
        """The same where a gradient is a product, and own rows may still be alike."""
        own, means, squares = (array(t).reshape(-1, p.shape[-1]) for t in (p, mean, square))
        stack, common, rows = grad.of, own[:1], _NO_ROWS
        if stack is not None:
            common, rows = array(stack.common), array(stack.places.rows)
        matrix = grad.matrix.arrays
        step = partial(
            kernels("adam").adam_of_product,
            *matrix, array(grad.errors), own, common, rows, stack is not None,
            means, squares, *self.settings, number,
        )  # fmt: skip
        share(step, len(own), PER_ENTRY * own.size + 2.0 * len(matrix[1]) * own.shape[1])
        if stack is not None:
            stack.room(filled=True)

    @property
    def settings(self) -> tuple[float, ...]:
        """What compiled kernels are told of it."""
        return self.lr, self.beta1, self.beta2, self.eps, self.weight_decay
