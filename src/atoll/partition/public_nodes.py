"""Public nodes that every client holds, and private ones."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph
from atoll.options import option
from atoll.partition.base import Partition, by_nodes, partitions


@partitions.register("public-nodes")
@dataclass(frozen=True, kw_only=True)
class PublicNodes(Partition):
    """A share of public nodes held by all clients, private ones dealt out evenly (PPFL-GNN).

    Section 4.1 of the paper: 4 clients, 40 % of the nodes public, 15 % private for each, so that
    a client has 55 % of them (Cora: 1,083 public and 406 private nodes). A client's edges are those
    among its nodes; edges between private nodes of two clients are lost. Section 4.5 composes "the
    subgraphs with different percentages of top high-degree nodes", 5 to 40 %, "as the public
    nodes". That may mean that these are all the public ones (``choose = "top-degree"``), or that 40
    % stay public, so many of them the nodes of highest degree and the others drawn as before:
    ``hubs = 0.05``.

    Choices. The public share is rounded down, as the paper's counts are. The paper's equal private
    sets leave up to 3 nodes out; here every node is dealt out, and the first clients may have one
    more. How many nodes are private in the top-degree experiment the paper does not say: by
    default all the rest are dealt; ``private = 0.15`` keeps to 15 % of the nodes for each client
    and leaves the others out. Equal degrees are ordered at random.
    """

    clients: int = option(4, at_least=1)
    public: float = option(0.4, at_least=0, at_most=1)
    choose: Literal["random", "top-degree"] = "random"
    hubs: float = option(0.0, at_least=0, at_most=1, why="of all nodes; at most `public`")
    private: float = option(0.0, at_least=0, at_most=1, why="0 means all that are not public")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hubs > self.public:
            raise AtollError(
                f"partition.hubs ({self.hubs:g}) is above partition.public ({self.public:g}), of "
                f"which it is a part; lower it, or raise the other."
            )
        if self.public + self.clients * self.private > 1 + 1e-9:
            raise AtollError(
                f"partition.public ({self.public:g}) and partition.private ({self.private:g}) for "
                f"{self.clients} clients come to more than all nodes; lower one of them."
            )

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        order = rng.permutation(graph.nodes)
        degree = np.bincount(graph.edges[1], minlength=graph.nodes)
        top = order[np.argsort(-degree[order], kind="stable")]
        if self.choose == "top-degree":
            order = top
        elif self.hubs:
            hubs = top[: _floor(self.hubs, graph.nodes)]
            order = np.concatenate([hubs, order[~np.isin(order, hubs)]])
        public, rest = np.split(order, [_floor(self.public, graph.nodes)])
        rest = rng.permutation(rest)
        if self.private:
            rest = rest[: self.clients * _floor(self.private, graph.nodes)]
        return by_nodes(
            graph,
            (
                np.sort(np.concatenate([public, private]))
                for private in np.array_split(rest, self.clients)
            ),
        )


def _floor(share: float, nodes: int) -> int:
    """The share of the nodes, rounded down, but not because 0.15 is a little less than 15 %."""
    return int(share * nodes + 1e-9)
