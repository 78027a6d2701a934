"""How FED-PUB's server compares clients, and what each way of comparing needs to be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from atoll.federation.calls import Replies
from atoll.methods.client import Client
from atoll.methods.fed_pub.proxy import (
    ProxyKind,
    embedding_width,
    functional_similarity,
    own_features,
)
from atoll.models.base import Model
from atoll.ops.similarity import cosine, overlap
from atoll.tree import Kinds, Params

Measure = Literal["function", "parameters", "gradients", "labels", "uniform"]


class Similarity:
    """A way of comparing clients by the models ``theta [m, ...]`` of those that answered."""

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        """``S [m, m]``."""
        raise NotImplementedError("abstract")

    def sent(self, client: Client, theta: Params) -> Kinds:
        """What a client sends besides its model, where the server can't tell from the models."""
        return {}

    def like(self, server: Kinds) -> Kinds:
        """What that looks like for one client."""
        return {}


class Uniform(Similarity):
    """Everybody is as similar to everybody: an ablation."""

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        some = next(iter(theta.values()))
        return torch.zeros(len(some), len(some), dtype=some.dtype)


class ByParameters(Similarity):
    """The cosine of the models' parameters."""

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        return cosine(torch.cat([p.flatten(1) for p in theta.values()], dim=1))


class ByGradients(Similarity):
    """The cosine of the updates ``theta_i - theta_bar_i`` (Figure 3)."""

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        given = {name: p[replies.rows] for name, p in server["model"].items()}
        return cosine(torch.cat([(p - given[n]).flatten(1) for n, p in theta.items()], dim=1))


class ByLabels(Similarity):
    """One minus the Jensen-Shannon distance of the training nodes' classes (Table 10)."""

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        return overlap(replies["histogram"]["classes"])

    def sent(self, client: Client, theta: Params) -> Kinds:
        cohort, rows = client.cohort, client.cohort.rows("train")
        cell = cohort.batch[rows] * cohort.classes + cohort.y[rows]
        counts = torch.bincount(cell, minlength=cohort.k * cohort.classes).to(cohort.dtype)
        counts = counts.view(cohort.k, cohort.classes)
        return {"histogram": {"classes": counts / counts.sum(1, keepdim=True)}}

    def like(self, server: Kinds) -> Kinds:
        some = next(iter(server["model"].values()))
        return {"histogram": {"classes": some.new_zeros(int(server["proxy"]["classes"]))}}


@dataclass(frozen=True)
class ByFunction(Similarity):
    """The cosine of what the models make of one random graph that nobody owns."""

    model: Model
    proxy: ProxyKind
    across: float

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        features, classes = (int(server["proxy"][what]) for what in ("features", "classes"))
        return functional_similarity(
            self.model, theta, self.proxy, features, classes, self.across, seed
        )


class ByFunctionOfOwnFeatures(ByFunction):
    """The same, on the random graph with features of the client's own (Table 9)."""

    def between(self, theta: Params, server: Kinds, replies: Replies, seed: int) -> Tensor:
        return cosine(replies["embedding"]["mean"])

    def sent(self, client: Client, theta: Params) -> Kinds:
        with torch.no_grad():
            dressed = own_features(client.cohort, self.across, client.rng)
            return {"embedding": {"mean": self.model.mean_embedding(theta, dressed)}}

    def like(self, server: Kinds) -> Kinds:
        one_K = {name: p[:1] for name, p in server["model"].items()}
        sizes = (int(server["proxy"][what]) for what in ("features", "classes"))
        width = embedding_width(self.model, one_K, *sizes)
        return {"embedding": {"mean": next(iter(one_K.values())).new_zeros(width)}}


def similarity_by(mix: Measure, model: Model, proxy: ProxyKind, across: float) -> Similarity:
    """The way of comparing that the options of FED-PUB name."""
    if mix == "function":
        kind = ByFunctionOfOwnFeatures if proxy == "features" else ByFunction
        return kind(model, proxy, across)
    plain: dict[Measure, Similarity] = {
        "uniform": Uniform(),
        "parameters": ByParameters(),
        "gradients": ByGradients(),
        "labels": ByLabels(),
    }
    return plain[mix]
