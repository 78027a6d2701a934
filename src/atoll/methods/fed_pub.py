"""Personalised subgraph federated learning."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError, NoReplies
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.methods.base import Info, Method, initial_model, methods
from atoll.ops.masked import misfits, pack_kept, unpack_kept
from atoll.ops.optimize import descend
from atoll.ops.proxy import ProxyKind, proxy_cohort
from atoll.ops.similarity import cosine, mixing_weights
from atoll.rng import CohortRng
from atoll.tree import Params, Ragged, Tree, prefixed, spread, sq_dist, under


@methods.register("fed-pub")
@dataclass(frozen=True, kw_only=True)
class FedPub(Method):
    """Models are mixed by likeness and masked by each client (FED-PUB, Baek et al., 2023).

    **Server** (Algorithm 2). Each client i gets a model of its own,
    ``theta_bar_i = sum_j alpha_ij theta_j`` with ``alpha_ij = exp(tau S_ij) / sum_k exp(tau S_ik)``
    (eq. 3). The likeness ``S_ij`` is the cosine of the models' functional embeddings: the mean over
    nodes of what each model makes of one random graph that nobody owns (``proxy``). The server has
    the models, so it computes them itself, which the paper says is the same.

    **Client** (Algorithm 1). ``theta_i = w_i * mu_i`` with ``w_i`` starting from ``theta_bar_i``
    and the mask ``mu_i`` (ones at first, one entry a weight, none for biases) kept from round to
    round. Both are trained on
    ``L(theta_i) + l1 |mu_i|_1 + proximal |theta_i - theta_bar_i|^2`` (eq. 4). Entries of the mask
    below ``threshold`` count as zero at test time and on the wire: only the other entries of
    ``theta_i`` are sent, with one bit an entry that says which. Masks never leave.

    Where the text leaves room or its code differs:

    - ``l1_norm``: eq. 4 with the sum of the mask's entries (``sum``) makes Adam drive nearly every
      mask to zero at the paper's ``l1 = 0.001``, since an entry's pull of 0.001 outweighs its share
      of the task's gradient. ``mean``, the default, divides by their number.
    - ``tau`` is 3 for disjoint and 5 for overlapping clients in the paper.
    - The text calls one symbol both the weight of the L1 term and the threshold; here they are two.
    - ``as_published`` does what the released code does instead: the two penalties carry no
      gradient, ``w_i`` travels whole, masks are sent and mixed as well, and the proxy's blocks are
      not connected.

    ``masks = false`` and ``mix = "uniform"`` are the paper's ablations; both together are FedAvg
    with every client counting the same. ``mix = "parameters"`` compares the parameters themselves
    (Figure 3).
    """

    private: ClassVar[frozenset[str]] = Method.private | {"mask"}

    tau: float = 3.0
    l1: float = 1e-3
    proximal: float = 1e-3
    threshold: float = 1e-3
    l1_norm: Literal["mean", "sum"] = "mean"
    masks: bool = True
    mix: Literal["function", "parameters", "uniform"] = "function"
    proxy: ProxyKind = "sbm"
    as_published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tau", "l1", "proximal", "threshold"):
            if getattr(self, name) < 0:
                raise AtollError(f"method.{name} is {getattr(self, name)}; it can't be negative.")

    def start(self, info: Info, seed: int) -> Tree:
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed)
        sent = prefixed("model", spread(model, info.clients))
        if self.as_published:
            sent |= prefixed("published-mask", _ones(spread(model, info.clients)))
        return sent | {"proxy/features": torch.tensor(info.features)}

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        model = initial_model(self.model, cohort.features, cohort.classes, cohort.dtype, rng.seed)
        params_K = spread(model, cohort.k)
        mask_K = _ones(params_K) if self.masks else {}
        optimizer_K = self.optimizer.init(_joined(params_K, mask_K))
        return (
            prefixed("model", params_K)
            | prefixed("mask", mask_K)
            | prefixed("optimizer", optimizer_K)
        )

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        sent_K = {name: leaf for name, leaf in state.items() if isinstance(leaf, Tensor)}
        features = sent_K.pop("proxy/features")
        replies = fed.ask("train", each=sent_K, expect=self._one_reply(sent_K))
        replies = self._fitting(fed, replies, sent_K)
        received = self._unpacked(replies, sent_K)
        likeness = self._likeness(under(received, "model"), int(features), fed.seed)
        alpha = mixing_weights(likeness, self.tau)
        # Who did not answer keeps the model it has.
        place = {client: i for i, client in enumerate(fed.clients)}
        rows = torch.tensor([place[client] for client in replies.clients])
        personal: Tree = {"proxy/features": features}
        everybody = len(rows) == len(fed.clients)
        for name, theta in received.items():
            mixed = torch.tensordot(alpha, theta, dims=1)
            personal[name] = mixed if everybody else sent_K[name].index_copy(0, rows, mixed)
        return personal

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        given_K = under(each, "model")
        # What was sent is not ours to change in place; our own mask is.
        start_K = {name: p.clone() for name, p in given_K.items()}
        sent_mask_K = {name: m.clone() for name, m in under(each, "published-mask").items()}
        mask_K = sent_mask_K or under(state, "mask")
        trained, optimizer_K, _ = descend(
            _joined(start_K, mask_K),
            lambda v: self._objective(v, given_K, cohort, rng),
            self.optimizer,
            under(state, "optimizer") if self.keep_optimizer else {},
            self.epochs,
        )
        weight_K, mask_K = under(trained, "weight"), under(trained, "mask")
        kept_K = {name: m.abs() >= self.threshold for name, m in mask_K.items()}
        theta_K = _masked(weight_K, _thresholded(mask_K, kept_K))
        state = (
            prefixed("model", theta_K)
            | prefixed("mask", mask_K)
            | prefixed("optimizer", optimizer_K)
        )
        if self.as_published:
            return state, Reply(prefixed("model", weight_K) | prefixed("published-mask", mask_K))
        return state, Reply(_packed(theta_K, kept_K))

    def _objective(
        self, trained: Params, given_K: Params, cohort: Cohort, rng: CohortRng
    ) -> Tensor:
        """Eq. 4, one number a client ``[K]``."""
        mask_K = under(trained, "mask")
        theta_K = _masked(under(trained, "weight"), mask_K)
        loss_K = self.loss(theta_K, cohort, rng)
        if self.as_published:
            return loss_K
        loss_K = loss_K + self.proximal * sq_dist(theta_K, given_K)
        if mask_K:
            total_K = torch.stack([m.flatten(1).abs().sum(1) for m in mask_K.values()]).sum(0)
            count = sum(m[0].numel() for m in mask_K.values()) if self.l1_norm == "mean" else 1
            loss_K = loss_K + self.l1 * total_K / count
        return loss_K

    def _likeness(self, theta_K: Params, features: int, seed: int) -> Tensor:
        """``S [K, K]``."""
        some = next(iter(theta_K.values()))
        k = some.shape[0]
        if self.mix == "uniform":
            return torch.zeros(k, k, dtype=some.dtype)
        if self.mix == "parameters":
            return cosine(torch.cat([p.flatten(1) for p in theta_K.values()], dim=1))
        across = 0.0 if self.as_published else 0.01
        cohort = proxy_cohort(self.proxy, features, across, k, some.dtype, seed)
        with torch.no_grad():
            h = self.model.embed(theta_K, cohort)
        return cosine(h.view(k, -1, h.shape[1]).mean(1))

    def _one_reply(self, sent_K: Params) -> Tree:
        """What one client sends: masked weights as kept values and a pattern, the rest whole."""
        expect: Tree = {}
        for name, leaf in sent_K.items():
            if self.masks and not self.as_published and _is_masked(leaf):
                expect[name] = Ragged(leaf.new_zeros(0), (0,))
                bits = -(-leaf[0].numel() // 8)
                expect[name.replace("model/", "pattern/")] = torch.zeros(bits, dtype=torch.uint8)
            else:
                expect[name] = leaf[0]
        return expect

    def _fitting(self, fed: Federation, replies: Replies, sent_K: Params) -> Replies:
        """The replies whose patterns fit their values."""
        bad = {
            replies.clients[row]
            for name, leaf, pattern in _kept_parts(replies)
            for row in misfits(leaf, pattern, sent_K[name].shape[1:])
        }
        for client in sorted(bad):
            fed.reject("train", client, "its pattern does not fit its values")
        if len(bad) == len(replies.clients):
            raise NoReplies(f"no client's parameters could be read in round {fed.round}.")
        return replies.without(bad) if bad else replies

    def _unpacked(self, replies: Replies, sent_K: Params) -> Params:
        """Every client's model, whole again ``[m, ...]``, in the order it was sent."""
        parts = {
            name: unpack_kept(leaf, pattern, sent_K[name].shape[1:])
            for name, leaf, pattern in _kept_parts(replies)
        }
        dense = {n: leaf for n, leaf in replies.body.items() if isinstance(leaf, Tensor)}
        return {name: parts[name] if name in parts else dense[name] for name in sent_K}


def _kept_parts(replies: Replies) -> list[tuple[str, Ragged, Tensor]]:
    """The parameters that came in part: name, kept values, pattern."""
    found = []
    for name, leaf in replies.body.items():
        pattern = replies.body.get(name.replace("model/", "pattern/"))
        if isinstance(leaf, Ragged) and isinstance(pattern, Tensor):
            found.append((name, leaf, pattern))
    return found


def _is_masked(leaf_K: Tensor) -> bool:
    """Weights have masks, biases do not."""
    return leaf_K.dim() > 2


def _ones(params_K: Mapping[str, Tensor]) -> Params:
    return {name: torch.ones_like(p) for name, p in params_K.items() if _is_masked(p)}


def _joined(weight_K: Params, mask_K: Params) -> Params:
    """What is trained: weights and masks."""
    return {f"weight/{n}": p for n, p in weight_K.items()} | {
        f"mask/{n}": m for n, m in mask_K.items()
    }


def _masked(weight_K: Params, mask_K: Params) -> Params:
    """``theta = w * mu``."""
    return {name: w * mask_K[name] if name in mask_K else w for name, w in weight_K.items()}


def _thresholded(mask_K: Params, kept_K: Params) -> Params:
    """Masks with what is not kept set to zero."""
    return {
        name: m if bool(kept_K[name].all()) else m * kept_K[name].to(m.dtype)
        for name, m in mask_K.items()
    }


def _packed(theta_K: Params, kept_K: Params) -> Tree:
    """What travels of ``theta``: the kept entries."""
    body: Tree = {}
    for name, theta in theta_K.items():
        if name in kept_K:
            values, pattern = pack_kept(theta, kept_K[name])
            body[f"model/{name}"], body[f"pattern/{name}"] = values, pattern
        else:
            body[f"model/{name}"] = theta
    return body
