"""What an attacker has seen of a run, and what it is measured against: the clients' own data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atoll.federation.messages import Message
from atoll.graph import Graph
from atoll.leaves import Ragged
from atoll.masked import Packed
from atoll.methods.base import Method
from atoll.tree import Params, Tree, kind, subtree

Attacker = Literal["server", "client"]
ATTACKERS: tuple[Attacker, ...] = ("server", "client")
# How a server says which row of a table an anchor has.
_ROW = "anchor/row"
# Kinds that hold models or scores, not anything of single nodes.
_NOT_OF_NODES = frozenset({"model", "metric", "weight", "gradient", "variate", "published_mask"})


class Representation(NamedTuple):
    """Numbers of some nodes of a client: ``values[i] [d]`` belongs to its node ``rows[i]``."""

    name: str
    round: int
    rows: np.ndarray
    values: np.ndarray


class Update(NamedTuple):
    """What a client's local training did to a model that it was sent."""

    round: int
    before: Params
    after: Params


@dataclass(frozen=True)
class Evidence:
    """All messages of a run; the clients' graphs, to tell how right an attacker is.

    ``anchors`` are each client's anchors as the server numbers them. In the role of a client the
    attacker is the first one; it sees what is sent to it and nothing that others send.
    """

    messages: Sequence[Message]
    graphs: Sequence[Graph]
    method: Method
    anchors: tuple[np.ndarray, ...] = ()

    @property
    def spy(self) -> int:
        """The client that attacks the others, or that helps a curious server with its own data."""
        return 0

    def victims(self, attacker: Attacker) -> list[int]:
        clients = list(range(len(self.graphs)))
        return clients if attacker == "server" else clients[1:]

    @cached_property
    def whole(self) -> dict[str, tuple[int, ...]]:
        """The shapes of a whole model by the names of its parameters."""
        first = self.graphs[0]
        params = self.method.model.init(first.features, first.classes, np.random.default_rng(0))
        return {name: tuple(p.shape) for name, p in params.items()}

    def models(self, client: int, attacker: Attacker) -> list[tuple[int, Params]]:
        """Whole models that tell of a client: its replies, or what the spy is given of them."""
        of, up = (client, True) if attacker == "server" else (self.spy, False)
        found = [(m.round, model) for m, model in self._sent_models(of, up) if model]
        return [(r, model) for r, model in found if self._is_whole(model)]

    def updates(self, client: int) -> list[Update]:
        """What the server sees of a client's training: the model sent, and the one sent back."""
        found: list[Update] = []
        sent: dict[tuple[int, str, int], Params] = {}
        for message, model in self._sent_models(client):
            key = (message.round, message.step, message.nth)
            if not message.up:
                sent[key] = model
            elif key in sent and set(model) <= set(sent[key]) and model:
                found.append(Update(message.round, sent[key], model))
        return found

    def gradients(self, client: int) -> list[tuple[int, Params]]:
        """Gradients that a client sends as such."""
        return [
            (m.round, params)
            for m in self._of(client, up=True)
            if (params := self._tensors(subtree(m.of(client), "gradient")))
            and set(params) <= set(self.whole)
        ]

    def representations(self, client: int) -> list[Representation]:
        """What a client has sent of single nodes, for the server to see."""
        return [r for m in self._of(client, up=True) for r in self._of_nodes(m, client)]

    def given(self, to: int) -> list[Representation]:
        """What a client was sent of single nodes."""
        return [r for m in self._of(to, up=False) for r in self._of_nodes(m, to)]

    def _of(self, client: int, up: bool | None = None) -> Iterator[Message]:
        for message in self.messages:
            if client in message.clients and (up is None or message.up == up):
                yield message

    def _sent_models(self, client: int, up: bool | None = None) -> Iterator[tuple[Message, Params]]:
        for message in self._of(client, up):
            yield message, self._tensors(subtree(message.of(client), "model"))

    def _is_whole(self, model: Params) -> bool:
        return {name: tuple(p.shape) for name, p in model.items()} == self.whole

    def _tensors(self, tree: Tree) -> Params:
        """One client's parameters; of masked ones what was not sent is zero."""
        found: Params = {}
        for name, leaf in tree.items():
            if isinstance(leaf, Packed) and name in self.whole:
                found[name] = leaf.unpacked(torch.Size(self.whole[name])).values[0]
            elif isinstance(leaf, Tensor) and leaf.is_floating_point():
                found[name] = leaf[0]
        return found

    def _of_nodes(self, message: Message, client: int) -> Iterator[Representation]:
        for name, leaf in message.of(client).items():
            if kind(name) in _NOT_OF_NODES:
                continue
            values = leaf.values if isinstance(leaf, Ragged) else leaf
            if not isinstance(values, Tensor) or not values.is_floating_point():
                continue
            block = values if isinstance(leaf, Ragged) else values[0]
            rows = self._rows(message, client, len(block)) if block.dim() == 2 else None
            if rows is not None and block.shape[1] > 1:
                numbers, places = rows
                array = block.numpy().astype(np.float64)[places]
                yield Representation(f"{message.step}: {name}", message.round, numbers, array)

    def _rows(
        self, message: Message, client: int, count: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The nodes that so many rows are of, and which of the rows: all, anchors, or a table."""
        graph = self.graphs[client]
        if count == graph.nodes:
            return np.arange(count), np.arange(count)
        if len(graph.anchors) and count == len(graph.anchors):
            return graph.anchors, np.arange(count)
        if self.anchors and count == max(int(a.max(initial=-1)) for a in self.anchors) + 1:
            return graph.anchors, self.anchors[client]
        return self._rows_of_a_table(message, client)

    def _rows_of_a_table(
        self, message: Message, client: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Where the server itself said which row of a table each anchor has, or -1 if none."""
        graph = self.graphs[client]
        for asked in self._of(client, up=False):
            if (asked.round, asked.step, asked.nth) == (message.round, message.step, message.nth):
                row = asked.of(client).get(_ROW)
                if isinstance(row, Ragged) and len(row.values) == len(graph.anchors):
                    place = row.values.numpy()
                    return graph.anchors[place >= 0], place[place >= 0]
        return None
