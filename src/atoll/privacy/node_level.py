"""Privacy of single nodes: each training node's gradient is clipped before they are added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.methods.base import Method
from atoll.models.base import Model
from atoll.models.mlp import MLP
from atoll.ops.ragged import segment_sum
from atoll.privacy.noise import Coins
from atoll.privacy.protections import Privacy
from atoll.privacy.spending import Spending
from atoll.rng import CohortRng
from atoll.tasks.nodes import NodeClassification
from atoll.tree import Params

# No weight is larger, or it trains nothing.
_LARGEST = 1e6
# Methods whose clients look at their data through the task's loss and in no other way.
METHODS = ("fed-avg", "fed-prox", "fed-per")


@dataclass(eq=False)
class NodeNoise:
    """The gradient of a client's loss with clipped terms and noise.

    With n training nodes, ``g = (sum_v clip_C(grad l_v) + N(0, (noise S)^2)) / n``. The sensitivity
    S is what one node (its features, label and links) can change of the sum:

    - the model looks at a node alone (``mlp``): its own term comes or goes, ``S = C``;
    - the model looks at neighbours: the node may change the terms of all others too, each by 2C, so
      ``S = (2n - 1) C``. Degrees, by which neighbours are weighed, and paths of two steps reach
      most training nodes of a client, so no smaller number is claimed.

    n itself counts as known.
    """

    privacy: Privacy
    spending: Spending
    coins: Coins
    _steps: WeakKeyDictionary[CohortRng, int] = field(default_factory=WeakKeyDictionary)

    def loss(
        self, model: Model, params_K: Mapping[str, Tensor], cohort: Cohort, rng: CohortRng
    ) -> Tensor:
        """The training loss ``[K]``, with ``g`` for its gradient."""
        part = cohort.k_hop(model.reach, "train")
        leaves = {name: p.detach().requires_grad_() for name, p in params_K.items()}
        with torch.enable_grad():
            logits = model.apply_at(leaves, part, part.targets("train"), rng)
            rows = part.rows("train")
            losses = cross_entropy(logits, part.y[rows], reduction="none")
        client = part.batch[rows]
        count = torch.bincount(client, minlength=part.k)
        self.spending.spend(rng.clients, 1)
        sums = _where_sane(leaves, _clipped_sum(losses, leaves, client, self.privacy.clip))
        grads = self._noised(sums,
                             _sensitivity(model, count) * self.privacy.clip, rng)  # fmt: skip
        share = count.clamp(min=1)
        mean_K = segment_sum(losses.detach(), client, part.k) / share
        for name, p in params_K.items():
            g = grads[name] / share.view(-1, *[1] * (p.dim() - 1)).to(p.dtype)
            # Worth nothing, with the gradient g.
            mean_K = mean_K + ((p - p.detach()) * g).flatten(1).sum(1)
        return mean_K

    def _noised(self, sums: Params, sensitivity_K: Tensor, rng: CohortRng) -> Params:
        step = self._steps.get(rng, 0)
        self._steps[rng] = step + 1
        deviation = self.privacy.noise * sensitivity_K
        made = {}
        for name, total in sums.items():
            shapes = [total.shape[1:]] * len(total)
            noise = torch.stack(self.coins.blocks(rng, f"{name}#{step}", shapes, total.dtype))
            made[name] = total + noise * deviation.view(-1, *[1] * (total.dim() - 1)).to(noise)
        return made


def _sensitivity(model: Model, count: Tensor) -> Tensor:
    """In units of the clip, per client ``[K]``."""
    if type(model) is MLP:
        return torch.ones(len(count), dtype=torch.float64)
    return (2 * count.double() - 1).clamp(min=1)


def _where_sane(weights: Params, sums: Params) -> Params:
    """Nothing for clients with weights so large that one node's numbers overflow.

    Its NaN would then be in every node's gradient, so that one node changed all of the sum. What is
    looked at are the weights, which somebody else has sent, and no data.
    """
    large = [w.flatten(1).abs().amax(1) for w in weights.values() if w.numel()]
    sane_K = (torch.stack(large) <= _LARGEST).all(0)
    return {n: torch.where(sane_K.view(-1, *[1] * (s.dim() - 1)), s, 0) for n, s in sums.items()}


def _clipped_sum(losses: Tensor, leaves: Params, client: Tensor, clip: float) -> Params:
    """``sum_v clip_C(grad l_v)`` of each client: one backward pass for the v-th node of all."""
    first = torch.searchsorted(client, client)
    place = torch.arange(len(client)) - first
    sums = {name: torch.zeros_like(p) for name, p in leaves.items()}
    for v in range(int(place.max()) + 1 if len(place) else 0):
        chosen = losses[place == v].sum()
        grads = torch.autograd.grad(chosen, list(leaves.values()), retain_graph=True)
        norm_K = torch.stack([g.flatten(1).double().square().sum(1) for g in grads]).sum(0).sqrt()
        scale_K = (clip / norm_K.clamp(min=1e-30)).clamp(max=1.0)
        for total, g in zip(sums.values(), grads, strict=True):
            shape = (-1, *[1] * (g.dim() - 1))
            # A NaN would tell under any noise that it is there.
            known = norm_K.isfinite().view(shape)
            total += torch.where(known, g * scale_K.view(shape).to(g.dtype), 0)
    return sums


@dataclass(frozen=True, kw_only=True)
class PrivateNodes(NodeClassification):
    """Node classification whose training gradients are private; scores are as ever."""

    depends_on_splits = False
    private: NodeNoise = field(compare=False, repr=False)

    def loss(
        self,
        model: Model,
        params_K: Mapping[str, Tensor],
        cohort: Cohort,
        rng: CohortRng | None = None,
    ) -> Tensor:
        if rng is None or not any(p.requires_grad for p in params_K.values()):
            return super().loss(model, params_K, cohort, rng)
        return self.private.loss(model, params_K, cohort, rng)


def with_private_nodes(
    method: Method, privacy: Privacy, spending: Spending, coins: Coins
) -> Method:
    """The method, trained on private gradients."""
    task = method.task
    assert isinstance(task, NodeClassification)
    own = {spec.name: getattr(task, spec.name) for spec in fields(task)}
    return replace(method, task=PrivateNodes(**own, private=NodeNoise(privacy, spending, coins)))


def refuse_other_uses(method: Method) -> None:
    """Methods that look at their data in ways that clipped gradients do not cover."""
    name = method.registered_name
    if name not in METHODS:
        raise AtollError(
            f"privacy.unit = 'node' covers what is trained on the task's loss alone, and {name} "
            f"uses its data in other ways; choose {', '.join(METHODS)}, or privacy.unit=client."
        )
    if type(method.task) is not NodeClassification or method.task.class_weight != "none":
        raise AtollError(
            "privacy.unit = 'node' needs a loss that is a sum over nodes; set task.name=nodes and "
            "task.class_weight=none."
        )
    if method.task.batch:
        raise AtollError(
            "privacy.unit = 'node' counts one look at all training nodes per epoch, which "
            "mini-batches are not; set task.batch=0."
        )
