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
from atoll.ops.masked import bad_patterns, pack_tree, packed_shape, unpack_tree
from atoll.ops.proxy import ProxyKind, embedding_width, functional_likeness, own_features
from atoll.ops.similarity import cosine, mixing_weights, overlap
from atoll.optimizers.descent import descend
from atoll.rng import CohortRng
from atoll.tree import Params, Tree, copy, prefixed, put, spread, sq_dist, under


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
    ``theta_i`` are sent, with one bit an entry that says which, and only those of ``theta_bar_i``
    come back; for the rest the client goes on from its own ``w_i``. Masks never leave.

    Where the text leaves room or its code differs:

    - ``l1_norm``: eq. 4 with the sum of the mask's entries (``sum``) makes Adam drive nearly every
      mask to zero at the paper's ``l1 = 0.001``, since an entry's pull of 0.001 outweighs its share
      of the task's gradient. ``mean``, the default, divides by their number.
    - ``tau`` is 3 for disjoint and 5 for overlapping clients in the paper; its Table 10 comes out
      with 10 (docs/fed-pub.md).
    - The text calls one symbol both the weight of the L1 term and the threshold; here they are two.
    - ``as_published`` does what the released code does instead: the two penalties carry no
      gradient, ``w_i`` travels whole, masks are sent and mixed as well, and the proxy's blocks are
      not connected.

    ``masks = false`` and ``mix = "uniform"`` are the paper's ablations; both together are FedAvg
    with every client counting the same. ``mix`` may also compare the ``parameters`` themselves,
    the ``gradients`` (the updates ``theta_i - theta_bar_i``; Figure 3), or the clients' ``labels``
    (Table 10: one minus the Jensen-Shannon distance of the training nodes' classes, which every
    client must then reveal). ``proxy = "features"`` has each client embed its model on the random
    graph dressed in features of its own (Table 9) and send the embedding. ``community`` above -1
    mixes only clients that are more alike than that (Table 11: 0.5).
    """

    private: ClassVar[frozenset[str]] = Method.private | {"mask", "weight"}

    tau: float = 3.0
    l1: float = 1e-3
    proximal: float = 1e-3
    threshold: float = 1e-3
    l1_norm: Literal["mean", "sum"] = "mean"
    masks: bool = True
    mix: Literal["function", "parameters", "gradients", "labels", "uniform"] = "function"
    proxy: ProxyKind = "sbm"
    community: float = -1.0
    as_published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tau", "l1", "proximal", "threshold"):
            if getattr(self, name) < 0:
                raise AtollError(f"method.{name} is {getattr(self, name)}; it can't be negative.")

    def start(self, info: Info, seed: int) -> Tree:
        model = initial_model(self.model, info.features, info.classes, info.dtype, seed)
        personal_K = spread(model, info.clients)
        state = prefixed("model", personal_K) | {
            "proxy/features": torch.tensor(info.features),
            "proxy/classes": torch.tensor(info.classes),
            "likeness/between": torch.eye(info.clients, dtype=info.dtype),
        }
        if self.as_published:
            return state | prefixed("published-mask", _ones(personal_K))
        # Which entries each client kept when it last answered: all of them, at first.
        everything = {name: m.bool() for name, m in _ones(personal_K).items() if self.masks}
        return state | prefixed("kept", everything)

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        model = initial_model(self.model, cohort.features, cohort.classes, cohort.dtype, rng.seed)
        params_K = spread(model, cohort.k)
        mask_K = _ones(params_K) if self.masks else {}
        optimizer_K = self.optimizer.init(_joined(params_K, mask_K))
        return (
            prefixed("model", params_K)
            | prefixed("mask", mask_K)
            | prefixed("weight", {name: params_K[name].clone() for name in mask_K})
            | prefixed("optimizer", optimizer_K)
        )

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        personal_K, kept_K = under(state, "model"), under(state, "kept")
        masks_K = under(state, "published-mask")
        sent = pack_tree(personal_K, kept_K) | prefixed("published-mask", masks_K)
        replies = fed.ask("train", each=sent, expect=self._one_reply(state))
        shapes = {name: p.shape[1:] for name, p in personal_K.items()}
        replies = self._fitting(fed, replies, shapes)
        place = {client: i for i, client in enumerate(fed.clients)}
        rows = torch.tensor([place[client] for client in replies.clients])
        theta_K, now_kept_K = unpack_tree(replies.body, shapes)
        likeness = self._likeness(theta_K, state, replies.body, rows, fed.seed)
        alpha = mixing_weights(likeness, self.tau, self.community)
        mixed = prefixed("model", _mixed(alpha, theta_K))
        mixed |= prefixed("published-mask", _mixed(alpha, under(replies.body, "published-mask")))
        mixed |= prefixed("kept", now_kept_K)
        if len(rows) == len(fed.clients):
            return state | mixed | {"likeness/between": likeness}
        # Who did not answer keeps the model it has.
        before = {name: leaf for name, leaf in state.items() if name in mixed}
        between = under(state, "likeness")["between"].clone()
        between[rows[:, None], rows] = likeness
        after = put(copy(before), rows.tolist(), mixed, len(fed.clients))
        return state | after | {"likeness/between": between}

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        shapes = {name: p.shape[1:] for name, p in under(state, "model").items()}
        given_K = _completed(*unpack_tree(each, shapes), under(state, "weight"))
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
            | prefixed("weight", {name: weight_K[name] for name in mask_K})
            | prefixed("optimizer", optimizer_K)
        )
        if self.as_published:
            body = prefixed("model", weight_K) | prefixed("published-mask", mask_K)
        else:
            body = pack_tree(theta_K, kept_K)
        return state, Reply(body | self._about(theta_K, cohort, rng))

    def conclude(self, fed: Federation, state: Tree) -> Replies:
        """``model_size``: the share of a client's parameters that it uses and sends."""
        return fed.ask("weigh", expect={"metric/model_size": torch.zeros(()).double()})

    @client_step
    def weigh(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        masks_K, params_K = under(state, "mask"), under(state, "model")
        dropped_K = torch.zeros(cohort.k, dtype=torch.float64)
        for m in masks_K.values():
            dropped_K += (m.abs() < self.threshold).flatten(1).sum(1)
        size = sum(p[0].numel() for p in params_K.values())
        return state, Reply({"metric/model_size": 1 - dropped_K / size})

    def _about(self, theta_K: Params, cohort: Cohort, rng: CohortRng) -> Tree:
        """What else a client sends, where the server can't tell likeness from the models."""
        if self.mix == "labels":
            rows = cohort.rows("train")
            cell = cohort.batch[rows] * cohort.classes + cohort.y[rows]
            counts = torch.bincount(cell, minlength=cohort.k * cohort.classes).to(cohort.dtype)
            counts = counts.view(cohort.k, cohort.classes)
            return {"histogram/classes": counts / counts.sum(1, keepdim=True)}
        if self.mix == "function" and self.proxy == "features":
            proxy = own_features(cohort, self._across, rng)
            with torch.no_grad():
                h = self.model.embed(theta_K, proxy)
            return {"embedding/mean": h.view(cohort.k, -1, h.shape[1]).mean(1)}
        return {}

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

    @property
    def _across(self) -> float:
        """How likely an edge between the proxy's blocks is."""
        return 0.0 if self.as_published else 0.01

    def _likeness(
        self, theta_K: Params, before: Tree, replies: Tree, rows: Tensor, seed: int
    ) -> Tensor:
        """``S [m, m]`` of the clients that answered, at ``rows`` of what was sent before."""
        some = next(iter(theta_K.values()))
        k = some.shape[0]
        if self.mix == "uniform":
            return torch.zeros(k, k, dtype=some.dtype)
        if self.mix == "parameters":
            return cosine(torch.cat([p.flatten(1) for p in theta_K.values()], dim=1))
        if self.mix == "gradients":
            sent_K = under(before, "model")
            steps = [(p - sent_K[name][rows]).flatten(1) for name, p in theta_K.items()]
            return cosine(torch.cat(steps, dim=1))
        if self.mix == "labels":
            return overlap(under(replies, "histogram")["classes"])
        if self.proxy == "features":
            return cosine(under(replies, "embedding")["mean"])
        features = int(under(before, "proxy")["features"])
        return functional_likeness(self.model, theta_K, self.proxy, features, self._across, seed)

    def _one_reply(self, state: Tree) -> Tree:
        """What one client sends: masked weights as kept values and a pattern, the rest whole."""
        expect: Tree = {}
        for name, leaf in under(state, "model").items():
            if self.masks and not self.as_published and _is_masked(leaf):
                expect[f"model/{name}"], expect[f"pattern/{name}"] = packed_shape(
                    leaf.shape[1:], leaf.dtype
                )
            else:
                expect[f"model/{name}"] = leaf[0]
        for name, leaf in under(state, "published-mask").items():
            expect[f"published-mask/{name}"] = leaf[0]
        known = under(state, "proxy")
        if self.mix == "labels":
            expect["histogram/classes"] = leaf.new_zeros(int(known["classes"]))
        elif self.mix == "function" and self.proxy == "features":
            one_K = {name: p[:1] for name, p in under(state, "model").items()}
            width = embedding_width(self.model, one_K, int(known["features"]))
            expect["embedding/mean"] = leaf.new_zeros(width)
        return expect

    def _fitting(
        self, fed: Federation, replies: Replies, shapes: Mapping[str, torch.Size]
    ) -> Replies:
        """The replies whose patterns fit their values."""
        bad = {replies.clients[row] for row in bad_patterns(replies.body, shapes)}
        for client in sorted(bad):
            fed.reject("train", client, "its pattern does not fit its values")
        if len(bad) == len(replies.clients):
            raise NoReplies(f"no client's parameters could be read in round {fed.round}.")
        return replies.without(bad) if bad else replies


def _mixed(alpha: Tensor, values_K: Params) -> Params:
    """``sum_j alpha_ij theta_j`` (eq. 3)."""
    return {name: torch.tensordot(alpha, v, dims=1) for name, v in values_K.items()}


def _completed(given_K: Params, kept_K: Params, own_K: Params) -> Params:
    """What the server sent, with the client's own values where it sent none."""
    return {
        name: given
        if name not in kept_K or bool(kept_K[name].all())
        else torch.where(kept_K[name], given, own_K[name])
        for name, given in given_K.items()
    }


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
