"""Clustered federated learning by bi-partition."""

from typing import Literal

import torch
from torch import Tensor

from atoll.federation.calls import Replies, Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.methods.base import Info, Method, register
from atoll.methods.client import Client
from atoll.methods.gcfl.clustering import dtw_distances, min_cut
from atoll.methods.layers import without_layers
from atoll.ops.similarity import cosine
from atoll.options import option
from atoll.tree import Kinds, Params, replicated


@register("gcfl")
class GCFL(Method):
    """Clusters of clients share a model and split by their updates (GCFL, Xie et al., 2021).

    All clients begin in one cluster. In a round each client trains its cluster's model and the
    server sees its update ``d_i = theta_i - theta_c``. A cluster C of more than ``smallest``
    clients splits in two when

        ``| 1/|C| sum_i d_i | < eps1``  and  ``max_i |d_i| > eps2``

    (the cluster as a whole stands still while some member still moves), by the lightest cut of the
    complete graph over its members whose edges weigh the similarity of two updates. Then every
    cluster, the new ones included, takes the mean of its members' updates, weighted by labelled
    nodes. Clusters never merge. A client that did not answer follows its cluster, and the larger
    part of it where it splits.

    - An edge weighs ``1 + cos(d_i, d_j)``: a minimum cut needs weights that are not negative.
    - ``sequences`` is GCFL+: the server keeps the last ``window`` norms ``|d_i|`` of each client,
      and an edge weighs the largest distance minus the dynamic time warping distance of two
      clients' windows, each divided by its standard deviation if ``standardise``. A cluster splits
      once the windows of its members are full, and its members' windows then start afresh (the
      released code empties everybody's). The paper speaks of gradients' norms, its code tracks
      either those of the last batch's gradient or these; ours need no further number to be sent.
    - ``warmup`` rounds pass before the first split, and pairs stay together (``smallest``), as in
      the released code; the text has neither.
    - ``evaluates`` says which model a client is scored with: ``local``, the one it has just trained
      (as in FED-PUB's code), or ``cluster``, its cluster's new one (as in GCFL's).
    - In the original only the graph convolutions are shared; the input layer, the layer after the
      read-out and the classifier stay with each client: ``own_layers``, for the model ``gin``
      ``["input", "post", "classifier"]``. By default, as FED-PUB's Appendix B.2 runs it, clusters
      share whole models.
    - Thresholds belong to the norm of an update, which grows with the model, the learning rate and
      the local epochs. FED-PUB is silent about its own. Under its settings (Cora, CiteSeer and
      PubMed, 10 clients, never split) an update's norm is 1.4 to 5.4 and their mean's 0.3 to 3.6;
      the defaults, outside of both, let every cluster split as soon as it may. An ``eps1`` of 1
      was better on CiteSeer's validation nodes and worse on Cora's, by half a point. The original
      has 0.025 to 0.08 for ``eps1`` and 0.045 to 0.4 for ``eps2``, at a tenth of the rate and for
      the shared layers alone.
    """

    paper = ("fed-pub/table-2", "gcfl/one-dataset", "gcfl/dataset-per-client")

    eps1: float = option(10.0, at_least=0)
    eps2: float = option(0.0, at_least=0)
    warmup: int = option(20, at_least=0)
    smallest: int = option(2, at_least=1)
    sequences: bool = False
    window: int = option(10, at_least=2)
    standardise: bool = False
    evaluates: Literal["local", "cluster"] = "local"
    own_layers: tuple[str, ...] = ()

    def start(self, info: Info, seed: int) -> Kinds:
        k = info.clients
        server: Kinds = {
            "model": replicated(self.public(self.initial_model(info, seed)), k),
            "cluster": {"of": torch.zeros(k, dtype=torch.int64)},
        }
        if self.sequences:
            norms = torch.zeros(k, self.window, dtype=torch.float64)
            server["window"] = {"norms": norms, "filled": torch.zeros(k, dtype=torch.int64)}
        return server

    def join(self, client: Client) -> Kinds:
        model = self.initial_model(client.cohort, client.rng.seed)
        return self.trainable(replicated(model, client.k))

    def round(self, fed: Federation, server: Kinds, r: int) -> Kinds:
        theta = server["model"]
        one_reply = {name: p[0] for name, p in theta.items()}
        replies = fed.ask(
            "train", each={"model": theta}, expect={"model": one_reply}, weighted=True
        )
        rows = replies.rows
        update = {name: p - theta[name][rows] for name, p in replies["model"].items()}
        d = torch.cat([p.flatten(1) for p in update.values()], dim=1)
        if self.sequences:
            window = appended(server["window"], rows, d.norm(dim=1).double())
            server = updated(server, rows, window=window)
        if r > self.warmup:
            server = self.divided(server, rows, d)
        model = moved(fed, theta, update, server["cluster"]["of"], rows, replies.weight)
        return server | {"model": model}

    @client_step
    def train(self, client: Client, model: Params) -> Reply:
        return Reply(model=self.public(client.fit(model)), weight=client.cohort.labelled)

    def public(self, params: Params) -> Params:
        return without_layers(params, self.own_layers)

    def sent_to_score(self, server: Kinds) -> dict[str, Kinds]:
        return {"each": {"model": server["model"]}} if self.evaluates == "cluster" else {}

    def similarities(self, server: Kinds) -> Tensor:
        """One where two clients are in the same cluster."""
        of: Tensor = server["cluster"]["of"]
        return (of[:, None] == of[None, :]).double()

    def remarks(self, server: Kinds, concluded: Replies | None) -> list[str]:
        of = server["cluster"]["of"]
        if bool(of.any()):
            return []
        remedy = (
            f"only more than {self.smallest} clients split (method.smallest)"
            if len(of) <= self.smallest
            else f"give it more rounds than method.warmup ({self.warmup}), a larger method.eps1 "
            f"({self.eps1:g}) or a smaller method.eps2 ({self.eps2:g})"
        )
        return [f"no cluster split, so all clients shared one model throughout; {remedy}."]

    def divided(self, server: Kinds, answered: Tensor, d: Tensor) -> Kinds:
        """Every cluster whose time has come, in two: the new part gets the next free number."""
        of = server["cluster"]["of"].clone()
        window = {name: leaf.clone() for name, leaf in server.get("window", {}).items()}
        for c in range(int(of.max()) + 1):
            rows = torch.nonzero(of[answered] == c).flatten()
            members = answered[rows]
            own = {name: leaf[members] for name, leaf in window.items()}
            if not self.splits(d[rows], own):
                continue
            leaving = members[min_cut(self.similarity(d[rows], own))]
            if 2 * len(leaving) > len(members):
                # The absent stay where most are.
                leaving = torch.cat([leaving, absent(of == c, answered)])
            of[leaving] = int(of.max()) + 1
            if self.sequences:
                window["filled"][members] = 0
        return server | {"cluster": {"of": of}} | ({"window": window} if window else {})

    def splits(self, d: Tensor, window: Params) -> bool:
        """Whether a cluster's time has come: updates ``d [n, size]`` and windows of its members."""
        if len(d) <= self.smallest:
            return False
        if self.sequences and bool((window["filled"] < self.window).any()):
            return False
        largest = float(d.norm(dim=1).max())
        return float(d.mean(0).norm()) < self.eps1 and largest > self.eps2

    def similarity(self, d: Tensor, window: Params) -> Tensor:
        """The similarity of a cluster's members ``[n, n]``, not negative."""
        if not self.sequences:
            return (1 + cosine(d)).clamp(min=0.0)
        norms = window["norms"]
        if self.standardise:
            norms = norms / norms.std(dim=1, correction=0, keepdim=True).clamp(min=1e-12)
        distances = dtw_distances(norms)
        return distances.max() - distances


def appended(window: Params, rows: Tensor, norms: Tensor) -> Params:
    """The windows of those who answered, with this round's norms ``[m]`` at their ends."""
    filled = (window["filled"][rows] + 1).clamp(max=window["norms"].shape[1])
    ends = torch.cat([window["norms"][rows, 1:], norms[:, None]], dim=1)
    return {"norms": ends, "filled": filled}


def absent(members: Tensor, answered: Tensor) -> Tensor:
    """The members of a cluster that did not answer."""
    silent = members.clone()
    silent[answered] = False
    return torch.nonzero(silent).flatten()


def moved(
    fed: Federation, theta: Params, update: Params, of: Tensor, answered: Tensor, weight: Tensor
) -> Params:
    """Each client's model, moved by the weighted mean of its cluster's updates.

    ``theta_c <- theta_c + sum_i (n_i / n_c) d_i``, as one product with the matrix of shares
    ``[clusters, m]``: one row per cluster, so that its members' models stay equal to the last bit.
    A cluster of which nobody answered stays where it is.
    """
    clusters, place = torch.unique(of, return_inverse=True)
    together = (clusters[:, None] == of[answered][None, :]).double() * weight.double()
    share = together / together.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    means = fed.mixed(share, update, {name: d.new_zeros(()) for name, d in update.items()})
    return {name: p + means[name][place] for name, p in theta.items()}
