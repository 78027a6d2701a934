"""Federated averaging on subgraphs with halo nodes: other clients' nodes, by their embeddings."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch

from atoll.cohort import Cohort
from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.leaves import Ragged, RaggedLike
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.fed_gnn.halo import Layout, first_products, layout, with_halo
from atoll.methods.fed_gnn.matching import no_halo, same_anchors, similar_nodes
from atoll.methods.global_model import GlobalModel
from atoll.options import option
from atoll.tree import Kinds, Params


@register("fed-gnn")
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

    What a client receives joins its graph as halo nodes, each linked to the node it was picked
    for, until the next exchange. Then FedAvg: train the global model on the expanded graph, average
    by labelled nodes. Clients are scored on their own nodes, halo nodes in place.

    **The embedding** is what the first layer makes of a node before bias and activation,
    ``P X W1`` for a GCN (:mod:`atoll.methods.fed_gnn.halo`), and halo nodes enter there; neither
    paper says what travels in a network without embedding tables. They are constants: no gradient
    goes back to the clients that hold them. A model that propagates only before its first weights
    (``sgc``), or not at all (``mlp``), is not changed by them.

    **What is revealed.** The server sees every node's embedding (with ``match=anchors`` the mean
    over an anchor's neighbours only, and no edge of any one node), hence how many nodes a client
    has; clients see those that they receive, not whose they are. The weights are known, so an
    embedding is a linear sketch of a node's averaged features, and for sparse features little
    less than these themselves: FED-PUB names this as the method's weakness. It says "transmits and
    augments the nodes"; raw features never travel here. Models reach the server as a sum only.

    Further departures and readings:

    - ``neighbours`` bounds the halo nodes beside a node, ``every`` says how often they change; B.2
      has neither.
    - B.2 says "exactly the same neighbouring nodes"; here, as in the original, one in common is
      enough. Exchanging means rather than single neighbours keeps edges at home.
    - The original's privacy measures are options, off by default, since B.2 does not use them:
      each entry of the update is bounded by ``clip`` and Laplace noise of scale ``noise`` is added
      (0: not). Its pseudo items hide which rows of an embedding table change; there is none here.
    """

    paper = ("fed-pub/table-2",)

    tasks = ("nodes", "links")

    private = PRIVATE | {"halo"}

    match: Literal["similar", "anchors"] = "similar"
    threshold: float = option(0.5, at_least=-1, at_most=1, why="it is a cosine")
    neighbours: int = option(3, at_least=1)
    every: int = option(10, at_least=1)
    clip: float = option(0.0, at_least=0)
    noise: float = option(0.0, at_least=0)

    @property
    def needs_anchors(self) -> bool:
        return self.match == "anchors"

    def start(self, info: Info, seed: int) -> Kinds:
        width = sum(self.layout(info).values())
        numbers = info.anchors or (np.zeros(0, dtype=np.int64),) * info.clients
        return super().start(info, seed) | {
            "embedding": {"row": torch.zeros(width, dtype=info.dtype)},
            "anchor": {"number": Ragged.of([of_numpy(n) for n in numbers])},
            "halo": {"sent": torch.tensor(0)},
        }

    def join(self, client: Client) -> Kinds:
        width = sum(self.layout(client.cohort).values())
        halo = {
            "linked_to": Ragged.empty(client.k, dtype=torch.int64),
            "embedding": Ragged.empty(client.k, width, dtype=client.dtype),
        }
        return super().join(client) | {"halo": halo}

    @property
    def recurring(self) -> Mapping[str, int]:
        return {"embed": self.every}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        halo = self.exchange(fed, server) if (r - 1) % self.every == 0 else {}
        chosen, total = self.train_some(fed, server, each=halo)
        new = len(halo["halo"]["linked_to"].values) if halo else 0
        sent = {"sent": server["halo"]["sent"] + new}
        return {**server, **self.moved(server, self.averaged(fed, total, chosen)), "halo": sent}

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        usual = super().remarks(server, concluded)
        if int(server["halo"]["sent"]):
            return usual
        remedy = (
            "use data or a partition with shared nodes, or method.match=similar"
            if self.needs_anchors
            else f"lower method.threshold ({self.threshold:g})"
        )
        return [f"no node matched another client's, so no graph was expanded; {remedy}.", *usual]

    def exchange(self, fed: Federation, server: Kinds) -> Kinds:
        """Ask this round's clients for embeddings and find the halo nodes of each."""
        chosen, row = self.chosen(fed), server["embedding"]["row"]
        numbers = dict(zip(fed.clients, server["anchor"]["number"].blocks(), strict=True))
        due = {k: len(n) for k, n in numbers.items()} if self.needs_anchors else None
        replies = fed.ask(
            "embed",
            shared={"model": server["model"]},
            to=chosen,
            expect={"embedding": {"node": RaggedLike(row, exactly=due)}},
        )
        blocks = replies["embedding"]["node"].blocks()
        if self.needs_anchors:
            found = same_anchors(blocks, [numbers[client] for client in replies.clients])
        else:
            found = similar_nodes(blocks, self.threshold, self.neighbours)
        halo_of = dict(zip(replies.clients, found, strict=True))
        halos = [halo_of.get(client, no_halo(row)) for client in chosen]
        linked_to, embedding = (Ragged.of(blocks) for blocks in zip(*halos, strict=True))
        return {"halo": {"linked_to": linked_to, "embedding": embedding}}

    @client_step
    def embed(self, client: Client, model: Params) -> Reply:
        """What others may learn of the nodes: see the method's docstring."""
        cohort = client.cohort
        products = first_products(self.model, model, cohort)
        embedding, sizes = torch.cat(list(products.values()), dim=1), cohort.sizes
        if self.needs_anchors:
            anchors = cohort.anchors
            embedding = (cohort.operator("mean") @ embedding)[anchors.values]
            sizes = anchors.sizes
        return Reply(embedding={"node": Ragged(embedding, sizes)})

    @client_step
    def train(self, client: Client, model: Params, halo: dict[str, Ragged] | None = None) -> Reply:
        if halo is not None:
            client.state["halo"] = halo
        w = self.local_training(client, model)
        return Reply(model=self.noised(client, w, model), weight=self.weight(client))

    def view(self, client: Client) -> Client:
        """The clients' graphs with their halo nodes."""
        cohort, halo = client.cohort, client.state["halo"]
        linked_to = halo["linked_to"]
        if self.needs_anchors:  # the server knows a client's anchors by number, not by row
            pairs = zip(cohort.graphs, linked_to.blocks(), strict=True)
            linked_to = Ragged.of([of_numpy(g.anchors)[at] for g, at in pairs])
        return client.on(with_halo(cohort, linked_to, halo["embedding"], self.layout(cohort)))

    def layout(self, sizes: Info | Cohort) -> Layout:
        """What an embedding consists of."""
        found = layout(self.model, sizes.features, sizes.classes)
        if not found:
            raise AtollError(
                f"method fed-gnn can't add halo nodes to model '{self.model.registered_name}'; "
                f"use gcn, sage, gat or appnp."
            )
        return found

    def noised(self, client: Client, w: Params, model: Params) -> Params:
        """What is sent of a trained model: its update clipped, with Laplace noise (LDP)."""
        if self.clip == 0.0 and self.noise == 0.0:
            return w
        sent: Params = {}
        for name, p in w.items():
            update = p - model[name]
            if self.clip:
                update = update.clamp(-self.clip, self.clip)
            if self.noise:
                drawn = [s.laplace(0.0, self.noise, p.shape[1:]) for s in client.rng.streams]
                update = update + of_numpy(np.stack(drawn)).to(p.dtype)
            sent[name] = model[name] + update
        return sent
