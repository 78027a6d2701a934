"""What PPFL-GNN's two methods share: the server that aligns public nodes' embeddings."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Replies, Reply, client_step
from atoll.methods.base import Info, Method
from atoll.ops.downstream import Classifier, cross_validated
from atoll.ops.procrustes import align, pairs
from atoll.rng import CohortRng
from atoll.tree import Ragged, Tree

log = logging.getLogger("atoll")
NEIGHBOURS = (1, 5, 10)


@dataclass(frozen=True, kw_only=True)
class EmbeddingAlignment(Method):
    """Clients share embeddings of public nodes; the server aligns and averages them.

    The server of Algorithms 1 and 2 of PPFL-GNN (Zhang et al., 2023). A round: every client gets
    its public nodes' averages ``X_i'`` (nothing in the first round), trains, and sends its public
    nodes' embeddings ``X_i``. For every pair the server finds the orthogonal map from one space
    into the other on the nodes both hold, and returns to each client the average in its own space.
    Public nodes are a client's anchors: entities that another client holds, too. Which of them two
    clients share may differ from pair to pair.

    ``exchange = false`` is the paper's local training (LOC): the same clients, nothing sent.
    ``classifiers``, ``folds`` and ``judged`` set the final judgement of the embeddings (section
    4.2): an MLP and an SVC, or one of them, cross-validated at each client on ``all`` its labelled
    nodes or on the ``held-out`` ones (validation and test), of which only the scores leave it.
    ``watch`` has the SVC judge every round (Figures 3 to 6).

    The server's state keeps the alignment precision of every round, ``alignment/precision
    [rounds, 3]``: the mean over ordered pairs of the share of public nodes that find themselves
    among their 1, 5 and 10 nearest neighbours once they are moved into the other space.
    """

    tasks: ClassVar[tuple[str, ...]] = ("nodes",)
    needs_anchors: ClassVar[bool] = True

    exchange: bool = True
    classifiers: tuple[Classifier, ...] = ("svc", "mlp")
    folds: int = 5
    judged: Literal["all", "held-out"] = "all"
    watch: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classifiers:
            raise AtollError("method.classifiers is empty; name 'mlp', 'svc' or both.")
        if self.folds < 2:
            raise AtollError(f"method.folds is {self.folds}; cross-validation needs at least 2.")

    @abstractmethod
    def width(self, info: Info) -> int:
        """How many numbers an embedding has."""

    @abstractmethod
    def embeddings(self, cohort: Cohort, state: Tree) -> Tensor:
        """What each node is represented by in the end ``[N, d]``."""

    def start(self, info: Info, seed: int) -> Tree:
        width = self.width(info)
        sizes = [len(here) for _, _, here, _ in pairs(info.anchors)] if self.exchange else []
        scarce = sum(size < width for size in sizes)
        if scarce:
            log.warning(
                "%d of %d ordered pairs of clients share fewer nodes than an embedding has numbers "
                "(%d); their alignment fits them whatever they hold, and tells little.",
                scarce,
                len(sizes),
                width,
            )
        if self.exchange and not sizes:
            log.warning("no two clients share a node: there is nothing to align.")
        nobody = (0,) * info.clients
        counts = tuple(len(numbers) for numbers in info.anchors)
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *info.anchors])
        return {
            "public/vectors": Ragged(torch.zeros(0, width, dtype=info.dtype), nobody),
            "alignment/numbers": Ragged(torch.from_numpy(numbers), counts or nobody),
            "alignment/precision": torch.zeros(0, len(NEIGHBOURS), dtype=torch.float64),
        }

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        if not self.exchange:
            fed.ask("train", expect={})
            return state
        sent, numbers = state["public/vectors"], state["alignment/numbers"]
        assert isinstance(sent, Ragged)
        assert isinstance(numbers, Ragged)
        one = {"public/vectors": Ragged(sent.values[:0], (0,))}
        replies = fed.ask("train", each={"public/vectors": sent}, expect=one)
        place = {client: i for i, client in enumerate(fed.clients)}
        counts = dict(zip(fed.clients, numbers.sizes, strict=True))
        replies = fed.with_rows("train", replies, "public/vectors", counts)
        rows = [place[client] for client in replies.clients]
        public = replies.body["public/vectors"]
        assert isinstance(public, Ragged)
        named = [numbers.blocks()[row].numpy() for row in rows]
        found = align(public.blocks(), named, NEIGHBOURS)
        # Who did not answer gets what it would have got: it is still in that space.
        blocks = list(sent.blocks())
        for row, mean in zip(rows, found.means, strict=True):
            blocks[row] = mean
        precision = state["alignment/precision"]
        assert isinstance(precision, Tensor)
        return {
            "public/vectors": Ragged(torch.cat(blocks), tuple(len(b) for b in blocks)),
            "alignment/numbers": numbers,
            "alignment/precision": torch.cat([precision, found.precision[None]]),
        }

    def measure(self, fed: Federation, state: Tree) -> Replies:
        replies = super().measure(fed, state)
        further = self._agreement(state, replies)
        if self.watch:
            watched = fed.ask("judge_svc", to=replies.clients, expect=_blank("svc"))
            replies = replies.without(set(replies.clients) - set(watched.clients))
            further = self._agreement(state, replies) | watched.body
        # These concern no split: they are the same for training, validation and test.
        splits = replies.body["metric/nodes"]
        assert isinstance(splits, Tensor)
        body: Tree = {
            n: v[:, None].expand_as(splits) for n, v in further.items() if isinstance(v, Tensor)
        }
        return replace(replies, body=replies.body | body)

    def conclude(self, fed: Federation, state: Tree) -> Replies | None:
        first, *others = self.classifiers
        replies = fed.ask(f"judge_{first}", expect=_blank(first))
        for name in others:
            further = fed.ask(f"judge_{name}", to=replies.clients, expect=_blank(name))
            replies = replies.without(set(replies.clients) - set(further.clients))
            replies = replace(replies, body=replies.body | further.body)
        return replace(replies, body=replies.body | self._agreement(state, replies))

    def _agreement(self, state: Tree, replies: Replies) -> Tree:
        """The last round's alignment precision, the same for each client that replied."""
        precision = state["alignment/precision"]
        assert isinstance(precision, Tensor)
        count = len(replies.clients)
        return {
            f"metric/precision_{k}": column[-1].expand(count)
            for k, column in zip(NEIGHBOURS, precision.T, strict=True)
            if len(column)
        }

    @client_step
    def judge_svc(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        return state, self._judged("svc", cohort, state, rng)

    @client_step
    def judge_mlp(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        return state, self._judged("mlp", cohort, state, rng)

    def _judged(self, classifier: Classifier, cohort: Cohort, state: Tree, rng: CohortRng) -> Reply:
        """Cross-validate a classifier on each client's own nodes; only the score leaves."""
        blocks = torch.split(self.embeddings(cohort, state), list(cohort.sizes))
        found = []
        for graph, h, stream in zip(cohort.graphs, blocks, rng.streams, strict=True):
            chosen = graph.y >= 0 if self.judged == "all" else graph.val | graph.test
            seed = int(stream.integers(2**31))
            vectors = h.numpy()[chosen]
            found.append(cross_validated(classifier, vectors, graph.y[chosen], self.folds, seed))
        return Reply({f"metric/{classifier}": torch.tensor(found, dtype=torch.float64)})


def _blank(classifier: Classifier) -> Tree:
    """The shape of one client's score."""
    return {f"metric/{classifier}": torch.zeros((), dtype=torch.float64)}


def public_rows(h: Tensor, cohort: Cohort) -> Ragged:
    """What may travel of the nodes' embeddings ``[N, d]``: those of public nodes."""
    anchors = cohort.anchors
    return Ragged(h[anchors.values], anchors.sizes)


def received(cohort: Cohort, each: Tree) -> tuple[Tensor, Tensor]:
    """The averages that arrived, and the rows of the nodes they are of; none in round one."""
    sent = each.get("public/vectors")
    anchors = cohort.anchors
    if not isinstance(sent, Ragged):
        return torch.zeros(0, 0, dtype=cohort.dtype), anchors.values[:0]
    arrived = [
        rows if len(block) else rows[:0]
        for rows, block in zip(anchors.blocks(), sent.blocks(), strict=True)
    ]
    return sent.values, torch.cat(arrived)
