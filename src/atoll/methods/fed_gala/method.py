"""Graphs that share anchors: train, add the links the anchors lack, train on."""

import logging
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.leaves import Ragged, RaggedLike
from atoll.methods.base import SCALAR, Info, Method, register
from atoll.methods.client import Client
from atoll.methods.fed_gala.augment import (
    LINK_FIGURES,
    anchor_links,
    augmented,
    link_figures,
    mean_over_owners,
    of_anchors,
)
from atoll.methods.fed_gala.convergence import entered, not_begun, received_by, training
from atoll.methods.global_model import GlobalModel
from atoll.methods.proximal import adapted, first_pull, without_effect
from atoll.options import option
from atoll.rng import CohortRng
from atoll.tasks.node_loss import nll
from atoll.tasks.pairs import link_loss, positive_links, sample_negatives
from atoll.tree import Kinds, Params, sq_dist

log = logging.getLogger("atoll")
# The phases of Algorithm 3; the second is one exchange, at the end of the first's last round.
COMBINED, TASK, DONE = 1, 3, 4


@register("fed-gala")
class FedGala(GlobalModel):
    """Anchors get the links that their global embeddings suggest (Fed-GALA, Tavakoli, 2023).

    Clients hold overlapping parts of a graph; *anchors* are the nodes that several of them hold.

    **Phase 1** (Algorithm 4). Every round, clients train the global model for ``epochs`` steps on
    ``link_weight L_GAE + (1 - link_weight) L_C`` (eq. 3.1, equal weights): the cross-entropy of
    the labelled nodes and that of all links with as many sampled non-links (eq. 2.8 and 2.10),
    both on the class scores ``Z = GCN(X, A)`` (eq. 2.6). The server averages (eq. 3.2). A client
    has converged when its loss differs by less than ``alpha`` from the last round's, ``patience``
    rounds in a row (1, as in the thesis); it stops training, but its last model keeps counting. The
    phase ends when all have converged.

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
    - Phase 1 may end on the plateau that training begins with, where embeddings say little and
      links join what is not alike; ``patience`` above 1 waits until losses stay still. A run's
      figures tell: ``links_alike``, the share of added links that join one class.
    - Eq. 2.10 sums over all pairs of nodes, a node and itself included; here links and non-links
      are of two nodes. Layers have biases, which the thesis does not write. Its proximal step adds
      mu times the distance without a learning rate; here the pull is a term of the loss.
    - Phase 1 has no end but convergence, which takes more than 100 rounds on Cora with 8 clients.
      ``combined_rounds`` bounds it (0, as in the thesis: it may take all).
    - mu of the proximal variants follows :func:`atoll.methods.proximal.adapted` on the weighted
      mean of the clients' losses, and forgets the last loss when the phase changes, and with it
      the loss.

    With ``link_weight = 0`` and nothing to add (``no-augment``) phases 1 and 3 are the same and
    training begins with phase 3: FedAvg, or with ``mu`` FedProx, that stops when all converged.
    """

    paper = ("fed-gala/table-5-1",)
    usual_partition = "louvain-anchors"

    tasks = ("nodes",)
    needs_anchors = True
    complete_after = "augmented_round"
    # Whether phase 2 adds links.
    augments: ClassVar[bool] = True

    epochs: int = 3
    fraction: float = option(
        1.0, at_least=1, at_most=1, why="every client must say every round whether it has converged"
    )
    weights: Literal["labelled", "labelled-and-size", "equal"] = "labelled-and-size"
    link_weight: float = option(0.5, at_least=0, below=1)
    class_loss: Literal["mean", "sum"] = "sum"
    link_mean: Literal["pairs", "nodes"] = "nodes"
    alpha: float = option(0.001, at_least=0)
    task_alpha: float = option(0.0001, at_least=0)
    patience: int = option(1, at_least=1)
    steady_loss: bool = True
    combined_rounds: int = option(20, at_least=0)
    links: int = option(1, at_least=1)
    candidates: Literal["new", "all"] = "new"
    mu: float = option(0.0, at_least=0)
    adaptive: bool = False

    def start(self, info: Info, seed: int) -> Kinds:
        numbers, zero = info.anchor_numbers, torch.tensor(0)
        count = int(numbers.values.max()) + 1 if len(numbers.values) else 0
        if not count and self.augments:
            log.warning("no two clients share a node: there are no anchors, and no link is added.")
        first = COMBINED if self.link_weight or self.augments else TASK
        embedding = torch.zeros(count, info.classes, dtype=info.dtype)
        return super().start(info, seed) | {
            "prox": first_pull(self.mu),
            "phase": {
                "now": torch.tensor(first),
                "rounds": zero,
                "combined_rounds": zero,
                "augmented": zero,
            },
            "anchor": {"numbers": numbers, "embedding": embedding},
        }

    def join(self, client: Client) -> Kinds:
        nothing = Ragged.empty(client.k, 2, dtype=torch.int64)
        return super().join(client) | {"training": not_begun(client.k), "edges": {"added": nothing}}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        """One round of Algorithm 3."""
        phase = int(server["phase"]["now"])
        if phase == DONE:
            return server
        server, converged = self.train_all(fed, server)
        if phase == COMBINED and (converged or r == self.combined_rounds):
            return in_phase(TASK, self.augment_all(fed, server, r) if self.augments else server)
        return in_phase(DONE, server) if converged else server

    def hurried(self) -> Method:
        return replace(self, combined_rounds=2)

    def finished(self, server: Kinds) -> bool:
        return int(server["phase"]["now"]) == DONE

    def view(self, client: Client) -> Client:
        """Clients train and are scored on their graphs with the links added so far."""
        return client.on(augmented(client.cohort, client.state["edges"]["added"]))

    def train_all(self, fed: Federation, server: Kinds) -> tuple[Kinds, bool]:
        """A round of phase 1 or 3: the server's next state, and whether all have converged."""
        phase, prox = server["phase"], server["prox"]
        expect = {"metric": {"training": SCALAR} | ({"loss": SCALAR} if self.adaptive else {})}
        now, mu = {"now": phase["now"]}, {"mu": prox["mu"]}
        clients, total = self.train_some(fed, server, expect=expect, phase=now, prox=mu)
        found = total.mean["metric"]
        if self.adaptive:
            prox = adapted(prox, found["loss"])
        combined_rounds = phase["combined_rounds"] + (phase["now"] == COMBINED)
        phase = phase | {"rounds": phase["rounds"] + 1, "combined_rounds": combined_rounds}
        model = self.moved(server, self.averaged(fed, total, clients))
        return server | model | {"prox": prox, "phase": phase}, not found["training"] > 0

    @client_step
    def train(self, client: Client, model: Params, phase: Params, prox: Params) -> Reply:
        """ClientUpdate (Algorithm 5) of the clients that have not converged yet."""
        active, last_K, still = entered(client.state["training"], phase["now"])
        loss_K = last_K
        if bool(active.any()):
            combined = int(phase["now"][0]) == COMBINED
            found_K = self.client_update(client, model, active, combined, prox["mu"])
            loss_K = torch.where(active, found_K, last_K)
            alpha = self.alpha if combined else self.task_alpha
            still = torch.where((loss_K - last_K).abs() < alpha, still + 1, 0)
            active = active & (still < self.patience)
        client.state["training"] = training(phase["now"], active, loss_K, still)
        metric = {"training": active.double()} | ({"loss": loss_K} if self.adaptive else {})
        return Reply(model=client.state["model"], metric=metric, weight=self.weight(client))

    def client_update(
        self, client: Client, w_t: Params, active: Tensor, combined: bool, mu_K: Tensor
    ) -> Tensor:
        """Local epochs of the active clients; the loss that is compared between rounds ``[K]``."""
        here, mu_K = self.view(client), mu_K.to(client.dtype)
        w = received_by(active, w_t, client.state["model"])
        steady_K = self.steady(w, here, combined) if self.steady_loss else None

        def objective(w: Params) -> Tensor:
            loss_K = self.total_loss(w, here.cohort, here.rng, here.rng if combined else None)
            return loss_K + mu_K / 2 * sq_dist(w, w_t) if bool(mu_K.any()) else loss_K

        client.state["model"] = here.descend(objective, w, active=active)
        return here.first_loss.double() if steady_K is None else steady_K

    def total_loss(
        self, w: Params, cohort: Cohort, rng: CohortRng | None, coins: CohortRng | None
    ) -> Tensor:
        """Eq. 3.1 with the non-links that ``coins`` draw, or ``L_C`` without coins, ``[K]``."""
        scale_K = cohort.labelled.to(cohort.dtype) if self.class_loss == "sum" else 1.0
        if coins is None:
            return self.task.loss(self.model, w, cohort, rng) * scale_K
        Z = self.model.apply(w, cohort, rng)
        L_C = nll(Z, cohort, getattr(self.task, "class_weight", "none")) * scale_K
        non_links = sample_negatives(cohort, coins)
        L_GAE = link_loss(Z, positive_links(cohort), non_links, cohort, self.link_mean)
        return self.link_weight * L_GAE + (1 - self.link_weight) * L_C

    def steady(self, w: Params, client: Client, combined: bool) -> Tensor:
        """The loss with nothing left to chance: no dropout, the same non-links every round."""
        rng = client.rng
        same = CohortRng(rng.seed, rng.clients, 0, "steady negatives") if combined else None
        with torch.no_grad():
            return self.total_loss(w, client.cohort, None, same).double()

    def augment_all(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        """Phase 2 (Algorithm 6), after round r."""
        numbers, known = server["anchor"]["numbers"], server["anchor"]["embedding"]
        due = dict(zip(fed.clients, numbers.sizes, strict=True))
        expect = {"anchors": RaggedLike(known.new_zeros(known.shape[1]), exactly=due)}
        replies = fed.ask("share_anchors", expect={"embedding": expect})
        sent, own = replies["embedding"]["anchors"], numbers.take(replies.rows.tolist())
        Z_G = mean_over_owners(sent.values, own.values, len(known))
        returned = {"anchors": Ragged(Z_G[own.values], own.sizes)}
        fed.ask("augment", each={"embedding": returned}, to=replies.clients, expect={})
        return augmented_in(r, server) | {"anchor": {"numbers": numbers, "embedding": Z_G}}

    @client_step
    def share_anchors(self, client: Client) -> Reply:
        """PullClientAnchorEmbs (Algorithm 4): ``Z`` of the anchors by the client's last model."""
        return Reply(embedding={"anchors": of_anchors(self.embedded(client), client.cohort)})

    @client_step
    def augment(self, client: Client, embedding: dict[str, Ragged] | None = None) -> Reply:
        """ClientAugment (Algorithm 6), by the embeddings sent, or else by the client's own."""
        Z, only_new = self.embedded(client), self.candidates == "new"
        query = of_anchors(Z, client.cohort) if embedding is None else embedding["anchors"]
        links = anchor_links(query, Z, client.cohort, self.links, only_new)
        client.state["edges"] = {"added": links}
        return Reply()

    def embedded(self, client: Client) -> Tensor:
        """``Z`` (eq. 2.6) of all nodes by each client's own model, on the graphs as they were."""
        with torch.no_grad():
            return self.model.apply(client.state["model"], client.cohort)

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        phase = server["phase"]
        pull = without_effect(self.mu, self.epochs) + super().remarks(server, concluded)
        if self.augments and not len(server["anchor"]["numbers"].values):
            return [
                "no link was added, since no two clients share a node; use a partition or data "
                "with shared nodes, e.g. louvain-anchors, or another method.",
                *pull,
            ]
        if int(phase["now"]) != COMBINED:
            return pull
        lost = "no link was added" if self.augments else "the task's own loss was never trained"
        return [
            f"phase 1 had not converged after {int(phase['rounds'])} rounds, so {lost}; bound it "
            f"with method.combined_rounds, raise method.alpha, or give it more rounds.",
            *pull,
        ]

    def conclude(self, fed: Federation, server: Kinds) -> Replies:
        """How many rounds were trained in all, and in phase 1; when links were added, and which."""
        phase = server["phase"]
        if int(phase["augmented"]):
            metrics = {"metric": dict.fromkeys(LINK_FIGURES, SCALAR)}
            replies = fed.ask("describe_links", expect=metrics)
        else:
            weight = torch.ones(len(fed.clients), dtype=torch.float64)
            replies = Replies(fed.clients, {}, weight, fed.places(fed.clients))
        counts = {"trained_rounds": phase["rounds"], "combined_rounds": phase["combined_rounds"]}
        if self.augments:
            counts["augmented_round"] = phase["augmented"]
        k = len(replies.clients)
        return replies | {"metric": {name: n.double().expand(k) for name, n in counts.items()}}

    @client_step
    def describe_links(self, client: Client) -> Reply:
        """How many links were added, to how many nodes, and which share of them is of one class."""
        blocks = zip(client.state["edges"]["added"].blocks(), client.cohort.graphs, strict=True)
        rows = torch.tensor([link_figures(links, graph.y) for links, graph in blocks])
        return Reply(metric={n: rows[:, i].double() for i, n in enumerate(LINK_FIGURES)})


def augmented_in(r: int, server: Kinds) -> Kinds:
    """The state that remembers when links were added."""
    return server | {"phase": server["phase"] | {"augmented": torch.tensor(r)}}


def in_phase(phase: int, server: Kinds) -> Kinds:
    """The state in a new phase: mu stays, the last loss, which was another, is forgotten."""
    return server | {
        "prox": first_pull(float(server["prox"]["mu"])),
        "phase": server["phase"] | {"now": torch.tensor(phase)},
    }
