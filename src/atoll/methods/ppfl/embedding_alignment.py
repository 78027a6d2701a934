"""What PPFL-GNN's two methods share: the server that aligns public nodes' embeddings."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.graph import Graph
from atoll.leaves import Like, Ragged, RaggedLike, Rows
from atoll.methods.base import SCALAR, Info, Method
from atoll.methods.client import Client
from atoll.methods.ppfl.downstream import Classifier, cross_validated, fold_score
from atoll.methods.ppfl.procrustes import align, pairs
from atoll.methods.ppfl.sharing import Choice, ChosenLike, Preference, chosen_at, rows_of
from atoll.options import option
from atoll.tree import Kinds, Params

log = logging.getLogger("atoll")
NEIGHBOURS = (1, 5, 10)
Judged = Literal["all", "linked", "held-out", "fold"]


def judge(classifier: Classifier) -> Callable[[EmbeddingAlignment, Client], Reply]:
    """The step that fits a classifier to each client's own nodes and scores it on others of them.

    Only the score leaves. Each classifier is a step of its own, and so has its own randomness.
    """

    @client_step
    def step(self: EmbeddingAlignment, client: Client) -> Reply:
        cohort, scores = client.cohort, []
        blocks = torch.split(self.embeddings(client), list(cohort.sizes))
        for graph, h, stream in zip(cohort.graphs, blocks, client.rng.streams, strict=True):
            seed = int(stream.integers(2**31))
            scores.append(self.judgement(classifier, graph, h.cpu().numpy(), seed))
        return Reply(metric={classifier: torch.tensor(scores, dtype=torch.float64)})

    return step


@dataclass(frozen=True, kw_only=True)
class EmbeddingAlignment(Method):
    """Clients share embeddings of public nodes; the server aligns and averages them.

    The server of Algorithms 1 and 2 of PPFL-GNN (Zhang et al., 2023). A round: every client gets
    its public nodes' averages ``X_i'`` (nothing in the first round), trains, and sends its public
    nodes' embeddings ``X_i``. For every pair the server finds the orthogonal map from one space
    into the other on the nodes both hold, and returns to each client the average in its own space.
    Public nodes are a client's anchors: entities that another client holds, too. Which of them two
    clients share may differ from pair to pair.

    ``exchange = false`` is the paper's local training (LOC): the same clients, nothing sent. The
    paper does not say for how long LOC trains: as long as FED, or for the first iteration alone,
    after which nothing has been exchanged yet (the study ``alignment`` has both).
    ``classifiers``, ``folds`` and ``judged`` set the final judgement of the embeddings (section
    4.2): an MLP and an SVC, or one of them, at each client, which only the scores leave. The paper
    says "5-fold cross-validation" and not which nodes of a fold the embeddings may have learnt
    from. ``all``: cross-validated on all labelled nodes; ``linked``: on those that have a neighbour
    at this client, as where a graph is read from a list of its links; ``held-out``: on validation
    and test nodes alone, whose labels no model has seen; ``fold``: an ordinary fold, fitted to the
    training nodes with the labels that the model was trained on, and scored on the others.
    ``watch`` has the SVC judge every round (Figures 3 to 6).

    The paper's clients integrate "preferred" public information. ``share_ids`` names the entities
    that a client shares at all, by id (none: all); of those it shares ``share_at_most`` (0: all),
    drawn once by itself, or by its own ``share_prefer``: those with the most or the fewest
    neighbours. It then gets averages of these alone; nodes that it keeps back train on as private
    ones do. The server learns which anchors are shared, by number.

    Both algorithms run "while not converge", by a rule that is not given. Here ``patience`` rounds
    in which alignment precision at k = 1, the one thing the server can tell progress by, has not
    risen by ``progress`` above the best before; 0: all rounds are run, as by ``ppfl-gat`` unless
    asked otherwise, and in our recipes.

    The server's state keeps the alignment precision of every round, ``alignment/precision
    [rounds, 3]``: the mean over ordered pairs of the share of public nodes that find themselves
    among their 1, 5 and 10 nearest neighbours once they are moved into the other space.
    """

    tasks = ("nodes",)
    needs_anchors = True

    exchange: bool = True
    classifiers: tuple[Classifier, ...] = ("svc", "mlp")
    folds: int = option(5, at_least=2)
    judged: Judged = "all"
    watch: bool = False
    share_at_most: int = option(0, at_least=0)
    share_prefer: Preference = "any"
    share_ids: tuple[str, ...] = ()
    patience: int = option(10, at_least=0)
    progress: float = option(0.01, at_least=0, at_most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classifiers:
            raise AtollError("method.classifiers is empty; name 'mlp', 'svc' or both.")

    @property
    def choice(self) -> Choice:
        return Choice(self.share_at_most, self.share_prefer, self.share_ids)

    def chosen(self, client: Client) -> Kinds:
        """What a client keeps of its choice, drawn once; nothing where it shares all."""
        if not self.choice.leaves_out:
            return {}
        return {"shared": {"at": chosen_at(self.choice, client.cohort, client.rng.streams)}}

    @abstractmethod
    def width(self, info: Info) -> int:
        """How many numbers an embedding has."""

    @abstractmethod
    def embeddings(self, client: Client) -> Tensor:
        """What each node is represented by in the end ``[N, d]``."""

    def start(self, info: Info, seed: int) -> Kinds:
        width = self.width(info)
        if self.exchange:
            warn_of_scarce_pairs(info, width)
        precision = torch.zeros(0, len(NEIGHBOURS), dtype=torch.float64)
        return {
            "public": {"vectors": Ragged.empty(info.clients, width, dtype=info.dtype)},
            "alignment": {"numbers": info.anchor_numbers, "precision": precision},
        }

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        """One pass of the loop of Algorithms 1 and 2: clients train, the server aligns."""
        if not self.exchange:
            fed.ask("train", expect={})
            return server
        sent, numbers = server["public"]["vectors"], server["alignment"]["numbers"]
        due = dict(zip(fed.clients, numbers.sizes, strict=True))
        row = sent.values.new_zeros(sent.values.shape[1])
        like: Like = RaggedLike(row, exactly=due)
        if self.choice.leaves_out:
            like = ChosenLike(row, due)
        expect = {"public": {"vectors": like}}
        replies = fed.ask("train", each={"public": server["public"]}, expect=expect)
        X, held = replies["public"]["vectors"], numbers.take(replies.rows.tolist()).blocks()
        if isinstance(X, Rows):
            held = tuple(own[at.long()] for own, at in zip(held, X.at.blocks(), strict=True))
            X = X.rows
        found = align(X.blocks(), [own.cpu().numpy() for own in held], NEIGHBOURS)
        precision = torch.cat([server["alignment"]["precision"], found.precision[None]])
        # Who did not answer gets what it would have got: it is still in that space.
        server = updated(server, replies.rows, public={"vectors": Ragged.of(found.means)})
        return server | {"alignment": {"numbers": numbers, "precision": precision}}

    def finished(self, server: Kinds) -> bool:
        """Whether the clients' spaces have come no nearer to each other for ``patience`` rounds."""
        precision: Tensor = server["alignment"]["precision"][:, 0]
        if not self.patience or len(precision) <= self.patience:
            return False
        before, lately = precision[: -self.patience], precision[-self.patience :]
        return bool(lately.max() < before.max() + self.progress)

    def judgement(self, classifier: Classifier, graph: Graph, h: np.ndarray, seed: int) -> float:
        """A client's embeddings ``h [n, d]``, scored on the nodes that ``judged`` says."""
        held_out = graph.val | graph.test
        if self.judged == "fold":
            return fold_score(classifier, h, graph.y, graph.train, held_out, seed)
        chosen = held_out if self.judged == "held-out" else graph.y >= 0
        if self.judged == "linked":
            chosen &= np.bincount(graph.edges.reshape(-1), minlength=graph.nodes) > 0
        return cross_validated(classifier, h[chosen], graph.y[chosen], self.folds, seed)

    def measure(self, fed: Federation, server: Kinds) -> Replies:
        replies = super().measure(fed, server)
        watched: Params = {}
        if self.watch:
            judged = fed.ask("judge_svc", to=replies.clients, expect={"metric": {"svc": SCALAR}})
            replies = replies.without(set(replies.clients) - set(judged.clients))
            watched = judged["metric"]
        further = agreement(server, replies) | watched
        # These concern no split: they are the same for training, validation and test.
        splits = replies["metric"]["nodes"]
        return replies | {"metric": {n: v[:, None].expand_as(splits) for n, v in further.items()}}

    def conclude(self, fed: Federation, server: Kinds) -> Replies:
        first, *others = self.classifiers
        replies = fed.ask(f"judge_{first}", expect={"metric": {first: SCALAR}})
        for name in others:
            expect = {"metric": {name: SCALAR}}
            further = fed.ask(f"judge_{name}", to=replies.clients, expect=expect)
            replies = replies.without(set(replies.clients) - set(further.clients)) | further.kinds
        return replies | {"metric": agreement(server, replies)}

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        if not self.exchange or len(server["alignment"]["numbers"].values):
            return []
        return ["nothing was aligned, since no two clients share a node; use a partition or data "
                "with shared nodes, e.g. public-nodes, or another method."]  # fmt: skip

    judge_svc = judge("svc")
    judge_mlp = judge("mlp")


def warn_of_scarce_pairs(info: Info, width: int) -> None:
    """Say where clients share too few nodes for an alignment of ``width`` dimensions."""
    sizes = [len(here) for _, _, here, _ in pairs(info.anchors)]
    scarce = sum(size < width for size in sizes)
    if scarce:
        log.warning(
            "%d of %d ordered pairs of clients share fewer nodes than an embedding has numbers "
            "(%d); their alignment fits them whatever they hold, and tells little.",
            scarce,
            len(sizes),
            width,
        )
    if not sizes:
        log.warning("no two clients share a node: there is nothing to align.")


def agreement(server: Kinds, replies: Replies) -> Params:
    """The last round's alignment precision, the same for each client that replied."""
    precision: Tensor = server["alignment"]["precision"]
    return {
        f"precision_{k}": column[-1].expand(len(replies.clients))
        for k, column in zip(NEIGHBOURS, precision.T, strict=True)
        if len(column)
    }


def public_rows(h: Tensor, client: Client) -> dict[str, Ragged | Rows]:
    """What may travel of the nodes' embeddings ``[N, d]``: those of public nodes it shares."""
    anchors = client.cohort.anchors
    if "shared" not in client.state:
        return {"vectors": Ragged(h[anchors.values], anchors.sizes)}
    at: Ragged = client.state["shared"]["at"]
    return {"vectors": Rows(at, Ragged(h[rows_of(client.cohort, at)], at.sizes))}


def received(client: Client, public: dict[str, Ragged] | None) -> tuple[Tensor, Tensor]:
    """The averages that arrived, and the rows of the nodes they are of; none in round one."""
    cohort = client.cohort
    sent = Ragged.empty(cohort.k, 0, dtype=cohort.dtype) if public is None else public["vectors"]
    shared = cohort.anchors
    if "shared" in client.state:
        at: Ragged = client.state["shared"]["at"]
        shared = Ragged(rows_of(cohort, at), at.sizes)
    blocks = zip(shared.blocks(), sent.sizes, strict=True)
    return sent.values, torch.cat([rows[:size] for rows, size in blocks])
