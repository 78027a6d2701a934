"""Federated averaging, then personal propagation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.ada_fgl.branches import Branch, Heterophilous, Homophilous
from atoll.methods.ada_fgl.knowledge import Knowledge, homophily, knowledge
from atoll.methods.base import PRIVATE, Info, Method, register
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.options import option
from atoll.rng import CohortRng, server_stream
from atoll.tasks.nodes import NodeClassification, node_scores
from atoll.tree import Kinds, Params, replicated

_BRANCHES = ("homophilous", "heterophilous")


@register("ada-fgl")
class AdaFGL(GlobalModel):
    """FedAvg, then each client alone, by how homophilous its graph is (AdaFGL, Li et al., 2024).

    **First** ``federated_rounds`` rounds of FedAvg. **Then** the common model is sent once more and
    every round is ``personal_epochs`` steps that each client takes alone; nothing is sent any
    longer. With ``Pr`` the common model's class probabilities of a client's nodes:

    - ``A' = alpha A + (1 - alpha) S`` with ``S_ij = [cos(Pr_i, Pr_j) > alike]``,
      ``X~ = [X, P X, ..., P^hops X]``, P normalised as in a GCN.
    - The homophily confidence score (HCS) is the accuracy of ten steps of label propagation on a
      hidden half of the training nodes (:func:`atoll.methods.ada_fgl.knowledge.homophily`).
    - Homophilous clients, HCS of ``threshold`` or more: ``H = MLP(X~)``, trained by
      ``CE(H) + MSE(H, Pr)``; the mean of ``softmax(H)`` and ``softmax(Pr)`` is used.
    - Others: the sum of the cross-entropies of ``MLP(X)``, of ``MLP(X~)`` and of a signed
      propagation of a third MLP (:class:`atoll.methods.ada_fgl.branches.Heterophilous`); the mean
      of their softmaxes is used.

    ``combine = "switch"`` is that, the released code. ``"weigh"`` trains both branches everywhere
    and uses HCS times the first plus one minus HCS times the second, which needs no threshold;
    OpenFGL's port does so, with ``alpha = 0.5`` and ``beta = 0``.

    The original has 100 rounds of 3 epochs and then 200 epochs; OpenFGL's port has 50 rounds. Here
    the default, of 100 rounds, has 50 of FedAvg and 50 of four personal epochs.

    Departures: S and the similarities of the signed propagation are ``[n, n]`` there and are made
    by blocks of rows here, the numbers being the same. The code compares nodes by
    the softmax of Pr, here by Pr. It starts its hidden nodes and those
    of validation and test at ``1 / C`` but any others at their true labels; here every node that
    does not show its label starts at ``1 / C``. It reports each client's best epoch by validation;
    here, as with all methods, one round is chosen for all. Weights and biases of both branches
    start alike at all clients, from the public seed.
    """

    paper = ("ada-fgl/cora",)
    tasks: ClassVar[tuple[str, ...]] = ("nodes",)
    private = PRIVATE | {"phase", *_BRANCHES, *(f"{name}_optimizer" for name in _BRANCHES)}
    used_kinds = frozenset({"model", "phase", *_BRANCHES})

    federated_rounds: int = option(50, at_least=1)
    personal_epochs: int = option(4, at_least=1)
    alpha: float = option(0.05, at_least=0, at_most=1)
    beta: float = option(0.2, at_least=0, at_most=1)
    alike: float = option(0.999, at_least=-1, below=1)
    threshold: float = option(0.9, at_least=0)
    hops: int = option(3, at_least=1)
    hidden: int = option(64, at_least=1)
    dropout: float = option(0.5, at_least=0, below=1)
    combine: Literal["switch", "weigh"] = "switch"

    @property
    def branches(self) -> dict[str, Branch]:
        heterophilous = Heterophilous(self.hidden, self.dropout, self.beta, self.alike)
        return {
            "homophilous": Homophilous(self.hidden, self.dropout),
            "heterophilous": heterophilous,
        }

    def start(self, info: Info, seed: int) -> Kinds:
        return super().start(info, seed) | {"phase": {"personal": torch.tensor(0)}}

    def join(self, client: Client) -> Kinds:
        cohort, state = client.cohort, super().join(client)
        inputs = (self.hops + 1) * cohort.features
        for name, branch in self.branches.items():
            rng = server_stream(client.rng.seed, 0, name)
            params = branch.init(cohort.features, inputs, cohort.classes, rng)
            params_K = replicated({n: p.to(client.dtype) for n, p in params.items()}, client.k)
            state[name], state[f"{name}_optimizer"] = params_K, self.optimizer.init(params_K)
        return state | {"phase": {"personal": torch.zeros(client.k, dtype=torch.bool)}}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        if r <= self.federated_rounds:
            return super().round(fed, server, r)
        first = not int(server["phase"]["personal"])
        shared = {"model": server["model"]} if first else None
        fed.ask("personalise", shared=shared, expect={})
        return server | {"phase": {"personal": torch.tensor(1)}}

    @client_step
    def personalise(self, client: Client, model: Params | None = None) -> Reply:
        """Without a model sent, the one that the client has is its knowledge of the others."""
        if model is not None:
            client.state["model"] = client.owned(model)
        cohort, known, task = client.cohort, self.knowledge(client), self.task
        assert isinstance(task, NodeClassification)
        for name, branch in self.branches.items():
            active = self.takes(name, homophily(cohort, client.rng)) > 0
            if not bool(active.any()):
                continue
            # Of its own, since other clients of the cohort may need both branches.
            rng = CohortRng(
                client.rng.seed, client.rng.clients, client.rng.round, f"{client.rng.step} {name}"
            )

            def objective(p: Params, branch: Branch = branch, rng: CohortRng = rng) -> Tensor:
                return branch.loss(p, cohort, known, rng, task.class_weight)

            client.state[name] = client.descend(
                objective,
                client.state[name],
                active=active,
                epochs=self.personal_epochs,
                optimizer=f"{name}_optimizer",
                keep=True,
            )
        client.state["phase"] = {"personal": torch.ones(client.k, dtype=torch.bool)}
        return Reply()

    def takes(self, branch: str, score_K: Tensor) -> Tensor:
        """What a branch counts at each client ``[K]``."""
        if self.combine == "switch":
            score_K = (score_K >= self.threshold).to(score_K.dtype)
        return score_K if branch == "homophilous" else 1 - score_K

    @torch.no_grad()
    def knowledge(self, client: Client) -> Knowledge:
        """Made once per common model."""
        w, cohort = {n: p.contiguous() for n, p in client.state["model"].items()}, client.cohort

        def make() -> Knowledge:
            shares = self.model.apply(w, cohort).softmax(1)
            return knowledge(cohort, shares, self.alpha, self.alike, self.hops)

        key = ("AdaFGL's knowledge", self.model, self.alpha, self.alike, self.hops)
        return cohort.latest(key, list(w.values()), make)

    @client_step
    def evaluate(self, client: Client, model: Params | None = None) -> Reply:
        """Score the model sent along or the client's own; its branches once they are trained."""
        personal_K = client.state["phase"]["personal"]
        own = client.state["model"]
        if not bool(personal_K.any()):
            return Reply(metric=client.scores(own if model is None else {**own, **model}))
        cohort = client.cohort
        with torch.no_grad():
            logits = self.personal_shares(client).clamp(min=1e-30).log()
            if not bool(personal_K.all()):
                plain = self.model.apply({n: p.contiguous() for n, p in own.items()}, cohort)
                logits = torch.where(personal_K[cohort.batch][:, None], logits, plain)
            return Reply(metric=node_scores(logits, cohort, self.task))

    def personal_shares(self, client: Client) -> Tensor:
        """Class probabilities by each client's branches ``[N, C]``."""
        cohort, known = client.cohort, self.knowledge(client)
        total = torch.zeros_like(known.shares)
        for name, branch in self.branches.items():
            part_K = self.takes(name, homophily(cohort, client.rng))
            if bool((part_K > 0).any()):
                shares = branch.shares(client.state[name], cohort, known)
                total += part_K[cohort.batch][:, None] * shares
        return total

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        return {} if int(server["phase"]["personal"]) else super().sent_to_score(server)

    def hurried(self) -> Method:
        return replace(self, federated_rounds=2)

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        said = super().remarks(server, concluded)
        if int(server["phase"]["personal"]):
            return said
        return [
            *said,
            f"no client trained a model of its own, which begins after method.federated_rounds "
            f"({self.federated_rounds}); give it more rounds, or set that to fewer.",
        ]
