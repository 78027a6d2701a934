"""Federated averaging after one exchange of neighbour sums."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.graph import Graph, dense
from atoll.leaves import Ragged, RaggedLike
from atoll.methods.base import PRIVATE, Info, register
from atoll.methods.client import Client
from atoll.methods.fed_gcn.completed import completed
from atoll.methods.fed_gcn.exchange import Exchange
from atoll.methods.fed_gcn.neighbours import Neighbours, has_features, local_degrees
from atoll.methods.global_model import GlobalModel
from atoll.options import option
from atoll.tree import Kinds

_WHOLE, _REAL = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.float64)
_OTHER_OPERATORS = ("sage", "gat", "module")


@register("fed-gcn")
class FedGCN(GlobalModel):
    """FedAvg once neighbours at other clients are in a node's first sum (Yao et al., NeurIPS 2023).

    A GCN's first layer is ``P X W`` with ``(P X)_v = sum_w A_vw x_w / sqrt(d_v d_w)`` over all
    neighbours w of v, its loop included. Where an edge leads to another client the sum is short.
    Before training, every client adds up ``x_w / sqrt(d_w)`` over those of its nodes that are
    neighbours of a node v which others hold too; the server adds these sums over clients and
    returns the rows of v to those who hold v. Then FedAvg, every first layer complete.

    Clients know such neighbours as nodes that they hold without features, by their ids: the
    partition ``borders``, or tables of parties that list them. Features that several clients have
    are added by nobody, since those who hold the node have them.

    ``hops = 2``, the default, also completes the rows of those copies: they get the sum that the
    node has at its own client, itself included. Then a GCN of two convolutions computes at every
    client what it would on the whole graph, and one step of plain gradient descent per round is
    training on the whole graph, number for number. ``hops = 1`` completes a client's own nodes.

    **What is revealed.** The server learns whose shared nodes are the same, by number (as in every
    method with ``needs_anchors``), which of them a client has features of, and how many neighbours
    of each it has; sums of features reach it as sums over clients only, where an engine adds
    securely, and clients learn them of nodes that they hold. A sum over one neighbour is that
    neighbour's features. So a row is made only if some client that may have it learns something of
    at least ``floor`` nodes of others, and given to such clients alone; elsewhere those neighbours
    stay missing, as without the exchange, and the run's remarks say how many rows that were. A
    floor is no proof of privacy: rows of nodes with nearly the same neighbours can be subtracted,
    and each neighbour is scaled by its degree, so that sparse 0/1 features of two neighbours with
    different degrees can be told apart in their sum. ``floor = 1`` is the paper's method.

    Departures and readings:

    - The released code exchanges nothing: every client is given the raw features, and the edges, of
      all nodes within ``hops`` of its own. Its successor FedGraph uploads the sums of all nodes
      from every client; here rows that are given to nobody are not made.
    - In both, a client's copies have the degree that they have in its own part of the graph. Here
      degrees are exchanged: they are complete.
    - Encryption of the exchange, the paper's second half, is the engine's matter.
    - Edges between two nodes that several clients hold are those each of them has, and the larger
      count is the degree's.

    The paper's settings: plain SGD at 0.5, weight decay 5e-4, 16 hidden units, dropout 0.5, 100
    rounds of 3 steps. Models whose first product is with ``P`` (gcn, sgc, gamlp) are
    completed; an ``mlp`` or ``appnp`` begins without it, and nothing changes for it.
    """

    paper = ("fed-gcn/cora",)
    usual_partition = "borders"
    tasks = ("nodes",)
    private = PRIVATE | {"border"}
    needs_anchors = True

    hops: int = option(2, at_least=1, at_most=2)
    floor: int = option(3, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.registered_name in _OTHER_OPERATORS:
            raise AtollError(
                f"method fed-gcn can't complete the first layer of model "
                f"'{self.model.registered_name}'; set model.name=gcn."
            )

    def start(self, info: Info, seed: int) -> Kinds:
        return super().start(info, seed) | {
            "anchor": {"number": info.anchor_numbers},
            "features": {"row": torch.zeros(info.features, dtype=info.dtype)},
            "exchange": {"due": torch.tensor(0), "given": torch.tensor(0)},
        }

    def join(self, client: Client) -> Kinds:
        def degrees(graph: Graph) -> np.ndarray:
            degree: np.ndarray = local_degrees(graph)[graph.anchors]
            return degree

        sizes = client.cohort.anchors.sizes
        border = {
            "elsewhere": Ragged(torch.zeros(sum(sizes), dtype=torch.int64), sizes),
            "degree": _per_anchor(client, degrees),
            "further": Ragged(
                torch.zeros(sum(sizes), client.cohort.features, dtype=client.dtype), sizes
            ),
        }
        return super().join(client) | {"border": border}

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        if r == 1 and len(server["anchor"]["number"].values):
            server = self.exchange(fed, server)
        return super().round(fed, server, r)

    def exchange(self, fed: Federation, server: Kinds) -> Kinds:
        """Before training: who has what, how many neighbours, and their sums."""
        numbers = server["anchor"]["number"]
        blocks = dict(zip(fed.clients, numbers.blocks(), strict=True))
        made = Exchange(blocks, self.hops, self.floor)
        due = {client: len(block) for client, block in blocks.items()}

        def per_anchor(one: Tensor) -> RaggedLike:
            return RaggedLike(one, exactly=due)

        held = fed.ask("hold", expect={"held": {"features": per_anchor(_WHOLE)}})
        made.hold(held.clients, held["held"]["features"].blocks())
        counted = fed.ask(
            "count",
            each={"anchor": {"elsewhere": made.elsewhere()}},
            expect={
                "neighbours": {"number": per_anchor(_WHOLE)},
                "degree": {"own": per_anchor(_REAL), "shared": per_anchor(_REAL)},
            },
        )
        made.count(
            counted.clients,
            counted["neighbours"]["number"].blocks(),
            counted["degree"]["own"].blocks(),
            counted["degree"]["shared"].blocks(),
        )
        told = {"row": made.row_of_table(), "degree": made.degrees()}
        row = server["features"]["row"]
        table = row.new_zeros(made.rows, len(row))
        if made.rows:
            total = fed.sum(
                "add",
                shared={"table": {"rows": torch.tensor(made.rows)}},
                each={"anchor": told},
                expect={"neighbours": {"sum": table}},
            )
            table = total.count * total.mean["neighbours"]["sum"]
        else:
            fed.ask("learn_degrees", each={"anchor": {"degree": told["degree"]}}, expect={})
        given = {"given": made.given(), "sum": made.rows_given(table)}
        fed.ask("complete", each={"neighbours": given}, expect={})
        due_rows, given_rows = made.totals()
        exchange = {"due": torch.tensor(due_rows), "given": torch.tensor(given_rows)}
        return server | {"exchange": exchange}

    @client_step
    def hold(self, client: Client) -> Reply:
        """Which of the shared nodes a client has features of."""
        return Reply(held={"features": _per_anchor(client, lambda g: has_features(g) * 1)})

    @client_step
    def count(self, client: Client, anchor: dict[str, Ragged]) -> Reply:
        """How many neighbours a client has of each, which nobody else has the features of."""
        client.state["border"]["elsewhere"] = anchor["elsewhere"]
        counted = [near.count() for near in self.neighbours(client)]
        number, own, shared = (
            Ragged.of([of_numpy(part) for part in parts]) for parts in zip(*counted, strict=True)
        )
        return Reply(neighbours={"number": number}, degree={"own": own, "shared": shared})

    @client_step
    def add(self, client: Client, anchor: dict[str, Ragged], table: dict[str, Tensor]) -> Reply:
        """A client's part of the sums, in the rows of the server's table."""
        client.state["border"]["degree"] = anchor["degree"]
        parts = zip(self.sums(client), anchor["row"].blocks(), strict=True)
        whole = torch.zeros(
            client.k, int(table["rows"][0]), client.cohort.features, dtype=client.dtype
        )
        for mine, (sums, row) in zip(whole, parts, strict=True):
            wanted = row >= 0
            mine[row[wanted]] = sums[wanted]
        return Reply(neighbours={"sum": whole})

    @client_step
    def learn_degrees(self, client: Client, anchor: dict[str, Ragged]) -> Reply:
        client.state["border"]["degree"] = anchor["degree"]
        return Reply()

    @client_step
    def complete(self, client: Client, neighbours: dict[str, Ragged]) -> Reply:
        """Keep what others added: the sums that were given, without the client's own part."""
        given = neighbours["given"].values[:, None].to(client.dtype)
        own = torch.cat(self.sums(client))
        total = neighbours["sum"]
        further = Ragged(given * (total.values.to(client.dtype) - own), total.sizes)
        client.state["border"]["further"] = further
        return Reply()

    def neighbours(self, client: Client) -> list[Neighbours]:
        elsewhere = client.state["border"]["elsewhere"].blocks()
        pairs = zip(client.cohort.graphs, elsewhere, strict=True)
        return [Neighbours(graph, known.cpu().numpy()) for graph, known in pairs]

    def sums(self, client: Client) -> list[Tensor]:
        degree_K = client.state["border"]["degree"].blocks()
        pairs = zip(self.neighbours(client), degree_K, strict=True)
        sums = (near.sums(degree.cpu().numpy(), self.hops == 2) for near, degree in pairs)
        return [of_numpy(dense(part)).to(client.dtype) for part in sums]

    def view(self, client: Client) -> Client:
        """The clients on graphs whose first propagation is complete."""
        border = client.state["border"]
        return client.on(completed(client.cohort, border["degree"], border["further"]))

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        said = super().remarks(server, concluded)
        due, given = (int(server["exchange"][what]) for what in ("due", "given"))
        if due == 0:
            return [
                *said,
                "no client had a neighbour of a node that another one holds, so no sum was "
                "completed; use partition.name=borders or parties that list such nodes.",
            ]
        if given == due:
            return said
        return [
            *said,
            f"{due - given} of {due} sums of neighbours at other clients were withheld, because "
            f"they were over fewer than method.floor ({self.floor}) nodes; a lower floor completes "
            f"more and reveals more.",
        ]


def _per_anchor(client: Client, read: Callable[[Graph], np.ndarray]) -> Ragged:
    return Ragged.of([of_numpy(np.asarray(read(g))) for g in client.cohort.graphs])
