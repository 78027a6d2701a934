"""Graphs that share anchors: train, add the links the anchors lack, train on."""

import logging
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.methods.base import GlobalModel, Info, methods
from atoll.ops.augment import anchor_links, augmented, mean_over_owners
from atoll.ops.convergence import chosen, entered, not_begun, training
from atoll.ops.proximal import adapted, first_pull
from atoll.optimizers.descent import descend
from atoll.rng import CohortRng
from atoll.tasks.nodes import nll
from atoll.tasks.pairs import link_loss, positive_links, sample_negatives
from atoll.tree import Params, Ragged, Tree, prefixed, ragged, spread, sq_dist, under

log = logging.getLogger("atoll")
# The phases of Algorithm 3; the second is one exchange, at the end of the first's last round.
_COMBINED, _TASK, _DONE = 1, 3, 4


@methods.register("fed-gala")
@dataclass(frozen=True, kw_only=True)
class FedGala(GlobalModel):
    """Anchors get the links that their global embeddings suggest (Fed-GALA, Tavakoli, 2023).

    Clients hold overlapping parts of a graph; *anchors* are the nodes that several of them hold.

    **Phase 1** (Algorithm 4). Every round, clients train the global model for ``epochs`` steps on
    ``link_weight L_GAE + (1 - link_weight) L_C`` (eq. 3.1, equal weights): the cross-entropy of
    the labelled nodes and that of all links with as many sampled non-links (eq. 2.8 and 2.10),
    both on the class scores ``Z = GCN(X, A)`` (eq. 2.6). The server averages (eq. 3.2). A client
    has converged when its loss differs by less than ``alpha`` from the last round's; it stops
    training, but its last model keeps counting. The phase ends when all have converged.

    **Phase 2** (Algorithm 6). Clients send ``Z`` of their anchors and nothing else. The server
    takes each anchor's mean over its owners (eq. 3.3) and returns to each client those of its own
    anchors. The client links each anchor i to the ``links`` nodes l with the highest
    ``<Z_i^G, Z_l^k>`` (eq. 3.4; the softmax there changes no order).

    **Phase 3** (Algorithm 3, lines 4 to 8). As phase 1, on ``L_C`` and the augmented graphs, until
    all clients have converged by ``task_alpha`` or rounds run out.

    The server sees sums of models and, in phase 2, the anchors' embeddings. It knows which anchors
    of different clients are the same, but never who they are.

    Where the thesis leaves room or contradicts itself (docs/fed-gala.md has the reasons):

    - Eq. 3.2's weights do not sum to one; ``literal_weights`` gives the letter, else normalised.
    - Eq. 2.8 is a sum over labelled nodes, eq. 2.10 one over pairs divided by the nodes, and so are
      ours. ``class_loss = "mean"`` and ``link_mean = "pairs"`` make both means, which changes what
      L2 and the two losses weigh beside each other, and what ``alpha`` means.
    - Which loss is compared between rounds? With ``steady_loss`` the one at the model a client
      receives, without dropout and with the same negatives; else that of the first training step.
    - "A link is added": ``candidates = "new"`` leaves out the anchor itself and its neighbours,
      where a link would change nothing. Eq. 3.4 to the letter searches ``all`` nodes.
    - The prose uses global embeddings for all anchors, eq. 3.4 for anchor i only; we follow it.
    - Phase 1 has no end but convergence. ``combined_rounds`` bounds it (0: it may take all).
    - mu of the proximal variants follows :func:`atoll.ops.proximal.adapted` on the weighted mean
      of the clients' losses, and forgets the last loss when the phase, and so the loss, changes.

    With ``link_weight = 0`` and nothing to add (``no-augment``) phases 1 and 3 are the same and
    training begins with phase 3: FedAvg, or with ``mu`` FedProx, that stops when all converged.
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)
    needs_anchors: ClassVar[bool] = True
    # Who makes the embeddings by which anchors are linked: everybody, the client alone, nobody.
    augments: ClassVar[Literal["together", "alone", "never"]] = "together"

    weights: Literal["labelled", "labelled-and-size"] = "labelled-and-size"
    link_weight: float = 0.5
    class_loss: Literal["mean", "sum"] = "sum"
    link_mean: Literal["pairs", "nodes"] = "nodes"
    alpha: float = 0.001
    task_alpha: float = 0.0001
    steady_loss: bool = True
    combined_rounds: int = 0
    links: int = 1
    candidates: Literal["new", "all"] = "new"
    mu: float = 0.0
    adaptive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fraction != 1.0:
            raise AtollError(
                f"method.fraction is {self.fraction}; {self.registered_name} needs every client "
                f"every round to know that all have converged."
            )
        if not 0 <= self.link_weight < 1:
            raise AtollError(
                f"method.link_weight is {self.link_weight}; it must be at least 0 and below 1."
            )
        if self.links < 1:
            raise AtollError(f"method.links is {self.links}; an anchor needs at least 1.")
        for name in ("alpha", "task_alpha", "combined_rounds", "mu"):
            if getattr(self, name) < 0:
                raise AtollError(f"method.{name} is {getattr(self, name)}; it can't be negative.")

    def start(self, info: Info, seed: int) -> Tree:
        nobody = (np.zeros(0, dtype=np.int64),) * info.clients
        own = [torch.from_numpy(numbers) for numbers in info.anchors or nobody]
        count = max((int(n.max()) + 1 for n in own if len(n)), default=0)
        if not count and self.augments != "never":
            log.warning("no two clients share a node: there are no anchors, and no link is added.")
        first = _COMBINED if self.link_weight or self.augments != "never" else _TASK
        return (
            super().start(info, seed)
            | prefixed("prox", first_pull(self.mu))
            | {
                "phase/now": torch.tensor(first),
                "phase/combined_rounds": torch.tensor(0),
                "phase/rounds": torch.tensor(0),
                "anchor/numbers": Ragged(torch.cat(own), tuple(len(n) for n in own)),
                "anchor/embedding": torch.zeros(count, info.classes, dtype=info.dtype),
            }
        )

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        nothing = Ragged(torch.zeros((0, 2), dtype=torch.int64), (0,) * cohort.k)
        return (
            self.new_client(cohort, rng)
            | prefixed("training", not_begun(cohort.k))
            | {"edges/added": nothing}
        )

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        phase = int(under(state, "phase")["now"])
        if phase == _DONE:
            return state
        state, going_on = self._train_all(fed, state)
        if phase == _COMBINED and (not going_on or r == self.combined_rounds):
            embedding = self._augment_all(fed, state)
            return self._in_phase(_TASK, state) | {"anchor/embedding": embedding}
        return state if going_on else self._in_phase(_DONE, state)

    def finished(self, state: Tree) -> bool:
        return int(under(state, "phase")["now"]) == _DONE

    def _train_all(self, fed: Federation, state: Tree) -> tuple[Tree, bool]:
        """One round of phase 1 or 3, and whether any client still trains."""
        model, phase = prefixed("model", under(state, "model")), under(state, "phase")
        pull = under(state, "prox")
        number = torch.zeros((), dtype=torch.float64)
        expect: Tree = model | {"metric/training": number}
        if self.adaptive:
            expect["metric/loss"] = number
        total = fed.sum(
            "train",
            shared=model | {"phase/now": phase["now"], "prox/mu": pull["mu"]},
            expect=expect,
        )
        found = under(total.mean, "metric")
        if self.adaptive:
            pull = adapted(pull, found["loss"])
        combined = int(phase["now"]) == _COMBINED
        counted: Tree = {
            "phase/rounds": phase["rounds"] + 1,
            "phase/combined_rounds": phase["combined_rounds"] + int(combined),
        }
        state = state | self.averaged(fed, total, fed.clients) | prefixed("prox", pull) | counted
        return state, bool(found["training"] > 0)

    def _in_phase(self, phase: int, state: Tree) -> Tree:
        forgotten = first_pull(float(under(state, "prox")["mu"]))
        return state | prefixed("prox", forgotten) | {"phase/now": torch.tensor(phase)}

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """ClientUpdate (Algorithm 5) of the clients that have not converged yet."""
        phase = under(shared, "phase")["now"]
        active, last_K = entered(under(state, "training"), phase)
        params_K, optimizer_K = under(state, "model"), under(state, "optimizer")
        loss_K = last_K
        if bool(active.any()):
            graphs = augmented(cohort, ragged(state, "edges/added"))
            received = spread(under(shared, "model"), cohort.k)
            params_K = chosen(active, received, params_K)
            mu = float(under(shared, "prox")["mu"])
            combined = int(phase) == _COMBINED

            def objective(p: Params) -> Tensor:
                task_K = self._loss(p, graphs, rng, rng if combined else None)
                return task_K + mu / 2 * sq_dist(p, received) if mu > 0 else task_K

            steady_K = self._steady(params_K, graphs, rng, combined) if self.steady_loss else None
            params_K, optimizer_K, first_K = descend(
                params_K,
                objective,
                self.optimizer,
                optimizer_K if self.keep_optimizer else {},
                self.epochs,
                active,
            )
            seen_K = first_K.double() if steady_K is None else steady_K
            loss_K = torch.where(active, seen_K, last_K)
            threshold = self.alpha if combined else self.task_alpha
            active = active & ((loss_K - last_K).abs() >= threshold)
        state = state | prefixed("model", params_K) | prefixed("optimizer", optimizer_K)
        state |= prefixed("training", training(phase, active, loss_K))
        body: Tree = prefixed("model", params_K) | {"metric/training": active.double()}
        if self.adaptive:
            body["metric/loss"] = loss_K
        return state, Reply(body, weight=self.weight(cohort))

    def _loss(
        self, params_K: Params, cohort: Cohort, rng: CohortRng | None, coins: CohortRng | None
    ) -> Tensor:
        """Eq. 3.1 with the non-links that ``coins`` draw, or ``L_C`` without coins, ``[K]``."""
        scale_K = cohort.labelled.to(cohort.dtype) if self.class_loss == "sum" else 1.0
        if coins is None:
            return self.loss(params_K, cohort, rng) * scale_K
        z = self.model.apply(params_K, cohort, rng)
        class_K = nll(z, cohort) * scale_K
        negatives = sample_negatives(cohort, coins)
        link_K = link_loss(z, positive_links(cohort), negatives, cohort, self.link_mean)
        return self.link_weight * link_K + (1 - self.link_weight) * class_K

    def _steady(self, params_K: Params, cohort: Cohort, rng: CohortRng, combined: bool) -> Tensor:
        """The loss with nothing left to chance: no dropout, the same negatives every round."""
        same = CohortRng(rng.seed, rng.clients, 0, "steady negatives") if combined else None
        with torch.no_grad():
            return self._loss(params_K, cohort, None, same).double()

    def _augment_all(self, fed: Federation, state: Tree) -> Tensor:
        """Phase 2. Returns the anchors' global embeddings ``[anchors, classes]``."""
        embedding = state["anchor/embedding"]
        assert isinstance(embedding, Tensor)
        if self.augments == "alone":
            fed.ask("augment", expect={})
        if self.augments == "together":
            blank = Ragged(embedding[:0], (0,))
            replies = fed.ask("share_anchors", expect={"embedding/anchors": blank})
            own = dict(zip(fed.clients, ragged(state, "anchor/numbers").blocks(), strict=True))
            counts = {client: len(anchors) for client, anchors in own.items()}
            replies = fed.with_rows("share_anchors", replies, "embedding/anchors", counts)
            numbers = torch.cat([own[client] for client in replies.clients])
            sent = ragged(replies.body, "embedding/anchors")
            embedding = mean_over_owners(sent.values, numbers, len(embedding))
            returned = Ragged(embedding[numbers], sent.sizes)
            fed.ask("augment", each={"embedding/anchors": returned}, to=replies.clients, expect={})
        return embedding

    @client_step
    def share_anchors(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """PullClientAnchorEmbs (Algorithm 4): ``Z`` of the anchors by the client's last model."""
        z, anchors = self._embedding(cohort, state), cohort.anchors
        return state, Reply({"embedding/anchors": Ragged(z[anchors.values], anchors.sizes)})

    @client_step
    def augment(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """ClientAugment (Algorithm 6): each anchor's best links, by what was sent or by oneself."""
        z, anchors = self._embedding(cohort, state), cohort.anchors
        own: Tree = {"embedding/anchors": Ragged(z[anchors.values], anchors.sizes)}
        query = ragged(own | each, "embedding/anchors")
        links = anchor_links(query, z, cohort, self.links, only_new=self.candidates == "new")
        return state | {"edges/added": links}, Reply({})

    def _embedding(self, cohort: Cohort, state: Tree) -> Tensor:
        """``Z`` of all nodes by each client's own model, on the graphs as they were."""
        with torch.no_grad():
            return self.model.apply(under(state, "model"), cohort)

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """Clients are scored on their graphs as they are now, with the links added."""
        sent = under(shared, "model")
        params_K = spread(sent, cohort.k) if sent else under(state, "model")
        return state, Reply(self.scores(params_K, augmented(cohort, ragged(state, "edges/added"))))

    def conclude(self, fed: Federation, state: Tree) -> Replies | None:
        """How many rounds were trained in all, and in phase 1."""
        phase, k = under(state, "phase"), len(fed.clients)
        figures: Tree = {
            "metric/trained_rounds": phase["rounds"].double().expand(k),
            "metric/combined_rounds": phase["combined_rounds"].double().expand(k),
        }
        return Replies(fed.clients, figures, torch.ones(k, dtype=torch.float64))
