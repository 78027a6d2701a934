"""What it costs the server to compare clients."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.runner import load_parties, simulate
from atoll.methods.fed_pub.method import FedPub
from atoll.methods.fed_pub.proxy import embedding_width, functional_similarity
from atoll.ops.similarity import cosine
from atoll.reproduction.studies.base import Findings, Study, studies
from atoll.tree import Params

_REPEATS = 7


@studies.register("similarity-cost")
class SimilarityCost(Study):
    """CPU milliseconds of one comparison of all clients' models, by measure (FED-PUB, Figure 3).

    ``parameters`` and ``gradients`` are cosines of all parameters, the latter of the updates;
    ``function`` runs every model on the random graph and compares the means of what comes out,
    ``embeddings`` compares such means alone, which is what remains for a server whose clients
    embed their own models. The median over repetitions, in which the measures take turns. Models
    are random: what they have learned does not change the work.
    """

    caption = "CPU milliseconds per comparison"

    def findings(self, experiment: Experiment) -> Findings:
        method = experiment.method
        if not isinstance(method, FedPub):
            raise AtollError(
                f"{method.registered_name} does not compare clients; use fed-pub for the study "
                f"'similarity-cost'."
            )
        _, state = simulate(experiment, load_parties(experiment))
        rng = torch.Generator().manual_seed(experiment.run.seed)
        theta, given = (
            {n: torch.randn(p.shape, generator=rng).to(p.dtype) for n, p in state["model"].items()}
            for _ in range(2)
        )
        features, classes = (int(state["proxy"][what]) for what in ("features", "classes"))
        one_K = {name: p[:1] for name, p in theta.items()}
        width = embedding_width(method.model, one_K, features, classes)
        means = torch.randn(len(next(iter(theta.values()))), width, generator=rng)
        ways: dict[str, Callable[[], torch.Tensor]] = {
            "parameters": lambda: cosine(flat(theta)),
            "gradients": lambda: cosine(flat({n: p - given[n] for n, p in theta.items()})),
            "function": lambda: functional_similarity(
                method.model, theta, method.proxy, features, classes, method.across, 0
            ),
            "embeddings": lambda: cosine(means),
        }
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for repeat in range(_REPEATS + 1):
            for name, compare in ways.items():
                started = time.process_time()
                compare()
                if repeat:  # the first is for caches
                    spent[name].append(1000 * (time.process_time() - started))
        return Findings({name: statistics.median(each) for name, each in spent.items()})

    def default_figure(self, experiment: Experiment) -> str:
        return "function"


def flat(params_K: Params) -> torch.Tensor:
    """All parameters of each client in a row."""
    return torch.cat([p.flatten(1) for p in params_K.values()], dim=1)
