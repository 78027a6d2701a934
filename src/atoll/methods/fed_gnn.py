"""Federated averaging on subgraphs expanded by other clients' nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.errors import AtollError
from atoll.federation.protocol import Federation, Reply, client_step
from atoll.methods.base import GlobalModel, Info, Method, methods, pick
from atoll.ops.halo import Layout, first_products, layout, with_halo
from atoll.rng import CohortRng
from atoll.tree import Leaf, Params, Ragged, Tree, prefixed, spread, under

# Rows compared at once with all others: bounds the memory that matching takes.
_BLOCK = 1024


@methods.register("fed-gnn")
@dataclass(frozen=True, kw_only=True)
class FedGNN(GlobalModel):
    """FedAvg on subgraphs expanded by embeddings of others' nodes (FedGNN, Wu et al., 2021).

    FedGNN and its successor FedPerGNN (2022) recommend items to users. Each user's device holds
    its own items; a server that matches encrypted item ids sends it the embeddings of anonymous
    users who share an item, which join the device's graph beside that item. FED-PUB's Appendix B.2
    adapts this to subgraphs, in two sentences and without code: (1) nodes of two clients that have
    the same neighbours are exchanged; (2) where clients are disjoint, nodes whose similarity is
    above a threshold "(e.g., 0.5)" are. ``match`` chooses:

    - ``similar`` (2): every ``every`` rounds clients send an embedding of each node. For each node
      the server picks, among the other clients' nodes whose embedding has a cosine above
      ``threshold`` with it, the ``neighbours`` most similar ones, and sends their embeddings.
    - ``anchors`` (1, for overlapping clients): for each node that somebody else holds too (in the
      original, an item), a client sends the mean embedding of its neighbours (in the original,
      users), and receives as many as there are other clients that hold it and know a neighbour.

    What a client receives joins its graph as guests, each linked to the node it was picked for,
    until the next exchange. Then FedAvg: train the global model on the expanded graph, average by
    labelled nodes. Clients are scored on their own nodes, guests in place.

    **The embedding** is what the first layer makes of a node before bias and activation,
    ``P X W1`` for a GCN (:mod:`atoll.ops.halo`), and guests enter there; neither paper says what
    travels in a network without embedding tables. Guests are constants: no gradient goes back to
    their owners. A model that propagates only before its first weights (``sgc``), or not at all
    (``mlp``), is not touched by them.

    **What is revealed.** The server sees every node's embedding (with ``match=anchors`` the mean
    over an anchor's neighbours only, and no edge of any one node), hence how many nodes a client
    has; clients see those that they receive, not whose they are. The weights are known, so an
    embedding is a linear sketch of a node's averaged features, and for sparse features little
    less than these themselves: FED-PUB names this as the method's weakness. It says "transmits and
    augments the nodes"; raw features never travel here. Models reach the server as a sum only.

    Further departures and readings:

    - ``neighbours`` bounds the guests of a node, ``every`` how often they change; B.2 has neither.
    - B.2 says "exactly the same neighbouring nodes"; here, as in the original, one in common is
      enough. Exchanging means rather than single neighbours keeps edges at home.
    - The original's privacy measures are options, off by default, since B.2 does not use them:
      each entry of the update is bounded by ``clip`` and Laplace noise of scale ``noise`` is added
      (0: not). Its pseudo items hide which rows of an embedding table change; there is none here.
    """

    # With ``match=anchors``; a method that is set up otherwise needs none.
    needs_anchors: ClassVar[bool] = True
    private: ClassVar[frozenset[str]] = Method.private | {"guest"}

    match: Literal["similar", "anchors"] = "similar"
    threshold: float = 0.5
    neighbours: int = 3
    every: int = 10
    clip: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "needs_anchors", self.match == "anchors")
        if not -1 <= self.threshold <= 1:
            raise AtollError(
                f"method.threshold is {self.threshold}; a cosine lies between -1 and 1."
            )
        for name, least in (("neighbours", 1), ("every", 1), ("clip", 0), ("noise", 0)):
            if not getattr(self, name) >= least:
                raise AtollError(
                    f"method.{name} is {getattr(self, name)}; it must be at least {least}."
                )

    def start(self, info: Info, seed: int) -> Tree:
        width = sum(self._layout(info.features, info.classes).values())
        numbers = info.anchors or (np.zeros(0, dtype=np.int64),) * info.clients
        return super().start(info, seed) | {
            "embedding/width": torch.tensor(width),
            "anchor/number": Ragged(
                torch.from_numpy(np.concatenate(numbers)), tuple(len(n) for n in numbers)
            ),
        }

    def join(self, cohort: Cohort, rng: CohortRng) -> Tree:
        width, nobody = sum(self._layout(cohort.features, cohort.classes).values()), (0,) * cohort.k
        return self.new_client(cohort, rng) | {
            "guest/host": Ragged(torch.zeros(0, dtype=torch.int64), nobody),
            "guest/embedding": Ragged(torch.zeros(0, width, dtype=cohort.dtype), nobody),
        }

    def round(self, fed: Federation, state: Tree, r: int) -> Tree:
        model = prefixed("model", under(state, "model"))
        chosen = pick(fed, self.fraction)
        guests: Tree = {}
        if (r - 1) % self.every == 0:
            guests = self._exchange(fed, state, model, chosen)
        total = fed.sum("train", shared=model, each=guests, to=chosen, expect=model)
        return state | total.mean

    @client_step
    def embed(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        """What others may learn of the nodes: see the method's docstring."""
        products = first_products(self.model, spread(under(shared, "model"), cohort.k), cohort)
        embedding, sizes = torch.cat(list(products.values()), dim=1), cohort.sizes
        if self.match == "anchors":
            anchors = cohort.anchors
            embedding = (cohort.operator("mean") @ embedding)[anchors.values]
            sizes = anchors.sizes
        return state, Reply({"embedding/node": Ragged(embedding, sizes)})

    @client_step
    def train(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        received = under(shared, "model")
        guests = {n: each.get(n, state[n]) for n in ("guest/host", "guest/embedding")}
        params_K = spread(received, cohort.k, into=under(state, "model"))
        fitted = self.fit(params_K, self._expanded(cohort, guests), state, rng)
        sent = prefixed("model", self._noised(fitted.params_K, received, rng))
        return fitted.state | guests, Reply(sent, weight=cohort.labelled)

    @client_step
    def evaluate(
        self, cohort: Cohort, state: Tree, shared: Tree, each: Tree, rng: CohortRng
    ) -> tuple[Tree, Reply]:
        sent = under(shared, "model")
        params_K = spread(sent, cohort.k) if sent else under(state, "model")
        return state, Reply(self.scores(params_K, self._expanded(cohort, state)))

    def _exchange(
        self, fed: Federation, state: Tree, model: Tree, to: tuple[int, ...]
    ) -> dict[str, Leaf]:
        """Ask for embeddings and find each client's guests."""
        some = next(iter(under(model, "model").values()))
        width, numbers = under(state, "embedding")["width"], state["anchor/number"]
        assert isinstance(numbers, Ragged)
        row = Ragged(some.new_zeros(0, int(width)), (0,))
        replies = fed.ask("embed", shared=model, to=to, expect={"embedding/node": row})
        number_of = dict(zip(fed.clients, numbers.blocks(), strict=True))
        if self.match == "anchors":
            counts = {client: len(number_of[client]) for client in replies.clients}
            replies = fed.with_rows("embed", replies, "embedding/node", counts)
        embedding = replies.body["embedding/node"]
        assert isinstance(embedding, Ragged)
        blocks = embedding.blocks()
        if self.match == "anchors":
            found = _holders(blocks, [number_of[client] for client in replies.clients])
        else:
            found = _similar(blocks, self.threshold, self.neighbours)
        guests_of = dict(zip(replies.clients, found, strict=True))
        nobody = (torch.zeros(0, dtype=torch.int64), some.new_zeros(0, int(width)))
        host, guest = zip(*(guests_of.get(client, nobody) for client in to), strict=True)
        sizes = tuple(len(h) for h in host)
        return {
            "guest/host": Ragged(torch.cat(host), sizes),
            "guest/embedding": Ragged(torch.cat(guest), sizes),
        }

    def _expanded(self, cohort: Cohort, guests: Tree) -> Cohort:
        """The clients' graphs with their guests; the number of a host is one of a client's rows."""
        host, embedding = guests["guest/host"], guests["guest/embedding"]
        assert isinstance(host, Ragged)
        assert isinstance(embedding, Ragged)
        if self.match == "anchors":
            rows = [
                torch.from_numpy(graph.anchors)[block]
                for graph, block in zip(cohort.graphs, host.blocks(), strict=True)
            ]
            host = Ragged(torch.cat(rows), host.sizes)
        return with_halo(cohort, host, embedding, self._layout(cohort.features, cohort.classes))

    def _layout(self, features: int, classes: int) -> Layout:
        found = layout(self.model, features, classes)
        if not found:
            raise AtollError(
                f"method fed-gnn can't let guests into model '{self.model.registered_name}'; use "
                f"gcn, sage, gat or appnp."
            )
        return found

    def _noised(self, params_K: Params, received: Params, rng: CohortRng) -> Params:
        """What is sent of a trained model: its update clipped, with Laplace noise (LDP)."""
        if self.clip == 0.0 and self.noise == 0.0:
            return params_K
        sent: Params = {}
        for name, p in params_K.items():
            update = p - received[name]
            if self.clip:
                update = update.clamp(-self.clip, self.clip)
            if self.noise:
                drawn = [s.laplace(0.0, self.noise, tuple(p.shape[1:])) for s in rng.streams]
                update = update + torch.from_numpy(np.stack(drawn)).to(p.dtype)
            sent[name] = received[name] + update
        return sent


def _similar(
    blocks: Sequence[Tensor], threshold: float, neighbours: int
) -> list[tuple[Tensor, Tensor]]:
    """For each client, hosts and guests: the most similar rows of the others, above a threshold."""
    everybody = torch.cat(list(blocks))
    unit = torch.nn.functional.normalize(everybody, dim=1)
    owner = torch.repeat_interleave(torch.arange(len(blocks)), torch.tensor([*map(len, blocks)]))
    found = []
    for client, own in enumerate(torch.split(unit, [*map(len, blocks)])):
        hosts, guests = [own.new_zeros(0, dtype=torch.int64)], [own.new_zeros(0, dtype=torch.int64)]
        others = torch.nonzero(owner != client).flatten()
        theirs = unit[others]
        for start in range(0, len(own), _BLOCK):
            likeness = own[start : start + _BLOCK] @ theirs.T
            best, column = likeness.topk(min(neighbours, len(others)), dim=1)
            row, place = torch.nonzero(best > threshold, as_tuple=True)
            hosts.append(row + start)
            guests.append(others[column[row, place]])
        found.append((torch.cat(hosts), everybody[torch.cat(guests)]))
    return found


def _holders(blocks: Sequence[Tensor], numbers: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """For each client, hosts and guests: the rows that other clients have for its anchors.

    A row of zeros is that of an anchor without neighbours, and nobody's guest.
    """
    everybody, number = torch.cat(list(blocks)), torch.cat(list(numbers))
    owner = torch.repeat_interleave(torch.arange(len(blocks)), torch.tensor([*map(len, blocks)]))
    useful = torch.nonzero((everybody != 0).any(1)).flatten()
    order = useful[torch.argsort(number[useful], stable=True)]
    found = []
    for client, own in enumerate(numbers):
        theirs = order[owner[order] != client]
        first = torch.searchsorted(number[theirs], own)
        count = torch.searchsorted(number[theirs], own, right=True) - first
        host = torch.repeat_interleave(torch.arange(len(own)), count)
        within = torch.arange(len(host)) - torch.repeat_interleave(count.cumsum(0) - count, count)
        found.append((host, everybody[theirs[first[host] + within]]))
    return found
