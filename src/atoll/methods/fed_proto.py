"""Classes' mean representations instead of models."""

from typing import Literal

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.methods.base import Info, Method, register
from atoll.methods.client import Client
from atoll.methods.global_model import some_clients
from atoll.ops.ragged import segment_mean, segment_sum
from atoll.optimizers.fit import Penalty
from atoll.options import option
from atoll.tree import Kinds, Params, replicated


@register("fed-proto")
class FedProto(Method):
    """Clients share one prototype per class and keep their models (FedProto, Tan et al., 2022).

    Client i's prototype of class j is the mean representation of its training nodes of that class,
    ``C_i^j = 1/n_ij sum z``, z the output of the layer before the last (:meth:`Model.intermediate`,
    without dropout). The server averages over the clients that have the class,
    ``C^j = sum_i n_ij C_i^j / sum_i n_ij``. Clients train their own models on
    ``L_i + pull R_i``, from where they were; the paper's lambda is ``pull``.

    A client sends ``n_ij C_i^j`` and n_ij per class, zeros for one it has not, and the server needs
    sums only. It pulls no node towards a class of which no prototype is known yet; the server
    keeps one that nobody renews. ``smallest`` is how many nodes of a class a client must have to
    send its prototype: the mean of a single node is that node's representation.

    Where paper, code and ports differ:

    - ``distance``: the paper's R is ``sum_j d(C_i^j, C^j)``, a distance per class, here the squared
      one (``prototypes``, the default). Its code has the mean square of ``z - C^j`` over nodes and
      dimensions (``nodes``), with ``pull = 1``.
    - ``weights``: the paper's equation 6 divides by the number of clients as well, which would
      shrink prototypes; ours is the mean over nodes (``labelled``). The authors' code takes the
      plain mean over clients that have the class (``equal``).
    - Clients predict with their own classifier; the paper's code also has the nearest prototype.
    - OpenFGL's port averages zeros for the classes that a client lacks, by the clients' numbers
      of nodes.
    """

    tasks = ("nodes",)

    fraction: float = option(1.0, above=0, at_most=1)
    pull: float = option(0.1, at_least=0)
    distance: Literal["prototypes", "nodes"] = "prototypes"
    weights: Literal["labelled", "equal"] = "labelled"
    smallest: int = option(1, at_least=1)

    def start(self, info: Info, seed: int) -> Kinds:
        width = self.model.intermediate_width(info.features, info.classes)
        mean = torch.zeros(info.classes, width, dtype=info.dtype)
        return {"prototype": {"mean": mean, "known": torch.zeros(info.classes, dtype=info.dtype)}}

    def join(self, client: Client) -> Kinds:
        model = self.initial_model(client.cohort, client.rng.seed)
        return self.trainable(replicated(model, client.k))

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        prototype = server["prototype"]
        mean, known = prototype["mean"], prototype["known"]
        expect = {"prototype": {"sum": mean, "count": known}}
        chosen = some_clients(fed, self.fraction)
        total = fed.sum("train", shared={"prototype": prototype}, to=chosen, expect=expect)
        found = total.mean["prototype"]
        count = found["count"][:, None]
        renewed = found["sum"] / torch.where(count > 0, count, 1.0)
        return {
            "prototype": {
                "mean": torch.where(count > 0, renewed, mean),
                "known": torch.maximum(known, (found["count"] > 0).to(known.dtype)),
            }
        }

    @client_step
    def train(self, client: Client, prototype: Params) -> Reply:
        penalty = self.distances(client, prototype) if self.pull else None
        w = client.fit(client.state["model"], penalty=penalty)
        with torch.no_grad():
            mean, count = self.prototypes(w, client.cohort)
        count = torch.where(count >= self.smallest, count, 0.0)
        if self.weights == "equal":
            count = (count > 0).to(count.dtype)
        return Reply(prototype={"sum": mean * count[:, :, None], "count": count})

    def prototypes(self, w: Params, cohort: Cohort) -> tuple[Tensor, Tensor]:
        """Each client's prototypes ``[K, classes, d]``, and how many nodes each is the mean of."""
        rows, cell, k, classes = *training_cells(cohort), cohort.k, cohort.classes
        z = self.model.intermediate(w, cohort)[rows]
        count = torch.bincount(cell, minlength=k * classes).to(z.dtype)
        mean = segment_sum(z, cell, k * classes) / count.clamp(min=1)[:, None]
        return mean.view(k, classes, -1), count.view(k, classes)

    def distances(self, client: Client, prototype: Params) -> Penalty | None:
        """``pull R_i``, one number per client ``[K]``."""
        cohort, target, known = client.cohort, prototype["mean"], prototype["known"] > 0
        if not bool(known.any()):
            return None
        rows, cell = training_cells(cohort)
        owner, goal = cohort.batch[rows], target.flatten(0, 1)[cell]
        counts = known.flatten()[cell].to(goal.dtype)

        def of_nodes(w: Params) -> Tensor:
            away = (self.model.intermediate(w, cohort)[rows] - goal).square().mean(1)
            return self.pull * segment_mean(away * counts, owner, client.k)

        def of_prototypes(w: Params) -> Tensor:
            own, count = self.prototypes(w, cohort)
            away = (own - target).square().sum(2)
            return self.pull * (away * (known & (count > 0))).sum(1)

        return of_nodes if self.distance == "nodes" else of_prototypes

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        if bool(server["prototype"]["known"].any()):
            return []
        return [f"no client had {self.smallest} training nodes of any class, so no prototype was "
                f"sent; lower method.smallest."]  # fmt: skip


def training_cells(cohort: Cohort) -> tuple[Tensor, Tensor]:
    """Training nodes, and for each the place of its client and class among all pairs of both."""
    rows = cohort.rows("train")
    return rows, cohort.batch[rows] * cohort.classes + cohort.y[rows]
