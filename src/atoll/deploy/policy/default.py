"""The built-in policy, as the commented file that ``atoll policy --new`` writes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import tomli_w

from atoll.deploy.policy.judging import methods_within
from atoll.deploy.policy.rules import ALL, Policy, policy_of, read_policy
from atoll.experiment.config import Experiment
from atoll.experiment.outside import outside
from atoll.methods.exposure import exposure

TEXT = """\
# What runs may do with this site's data. This file stays here: nobody is sent it, and a
# coordinator that is refused learns that it was, not why. What is not named is refused. A section
# or key that you leave out is as in this file. See what a method would pass or fail with:
#
#     atoll audit --method fed-pub --policy policy.toml --party FOLDER

[who]
# SHA-256 of the keys of coordinators that may submit runs, as 64 hexadecimal digits. Empty: every
# coordinator that the authority of this site's kit admits.
coordinators = []

[code]
# Plug-ins that runs may use, each as "path/to/file.py:Name" or "package.module:Name". Read them
# first. Their SHA-256 must be the coordinator's. Nothing else is ever imported.
admit = []

[admitted]
# These send trained models, sums of gradients or scores. Others send more: look at them with
# atoll audit --method NAME before you add one.
methods = ["local", "fed-avg", "fed-prox", "fed-per", "fed-nova", "fed-dyn", "fed-dc", "scaffold",
           "moon", "ditto", "fed-pub", "gcfl"]
# Methods that were measured to give away links, features, or which nodes they were trained on (area
# of 0.65 or more) and that this site takes part in all the same. Name them here and in methods.
exposes = []
tasks = ["nodes", "links", "graphs"]
# Not "mlp": the gradient of a model that looks at one node at a time can be turned back into it.
# Nor "sage": its models show which nodes they were trained on (area 0.65).
# A plug-in that [code] admits needs no name here.
models = ["gcn", "gat", "sgc", "appnp", "gin"]
optimizers = ["adam", "sgd"]

[ranges]
# [low, high] of a run's options, where it has them.
[ranges.run]
rounds = [1, 1000]
[ranges.method]
epochs = [1, 50]           # steps of local training per round
[ranges.model]
hidden = [4, 512]
hops = [1, 50]
layers = [1, 10]
heads = [1, 16]
[ranges.task]
dimensions = [1, 512]
[ranges.optimizer]
lr = [1e-5, 1.0]
weight_decay = [0.0, 0.1]

[leaving]
kinds = ["model", "metric", "variate", "steps"]
# The most numbers that a row may have which stands for one node or entity.
row_width = 64
rows_narrower_than_features = true
bytes_per_round = 100_000_000
# Over all runs that this site ever took part in.
bytes_in_all = 100_000_000_000
# A run that was interrupted begins its round anew, and some sites may have gone meanwhile: so many
# steps per round may then be performed again with other content than the first time.
repeats = 10

[data]
# This site does not take part with fewer nodes, or fewer that it trains on.
nodes = 100
labelled = 10
# The largest share of its nodes that others may hold too, by this site's own intersection.
anchor_share = 0.5

[required]
# Protections without which this site refuses a run. epsilon = 0 requires no noise.
secure_sum = false
epsilon = 0.0
delta = 1e-5
# The most that all runs of this site may spend together, each counted with its whole budget; 0 is
# no limit. Without it, who submits a run twice has twice its epsilon.
epsilon_in_all = 0.0
# What that noise must hide: all that this site has to say in a run ("client"), or at least what
# one of its nodes adds to it ("node").
unit = "client"
"""

BUILT_IN = policy_of(TEXT, "the built-in policy")

_NO_LIMIT = 2**62


def policy_at(path: Path | None) -> Policy:
    """A site's own policy, or the built-in one where it has no file."""
    return BUILT_IN if path is None else read_policy(path, BUILT_IN)


def open_table(experiment: Experiment | None = None) -> dict[str, Any]:
    """A policy for parties that are all one's own: whatever a run's method sends may leave them.

    It admits the components of one run, or all without one. Code is admitted by name as ever.
    """
    every, anything = [ALL], [-math.inf, math.inf]
    names = dict.fromkeys(("methods", "exposes", "tasks", "models", "optimizers"), every)
    if experiment is not None:
        method = experiment.method
        own = [m for m in methods_within(method) if outside(m) is None]
        parts = {"tasks": method.task, "models": method.model, "optimizers": method.optimizer}
        names = {
            "methods": [m.registered_name for m in own],
            "exposes": [m.registered_name for m in own if exposure(m) is not None],
        } | {key: _own_names(part) for key, part in parts.items()}
    return {
        "admitted": names,
        "ranges": {s: dict.fromkeys(options, anything) for s, options in BUILT_IN.ranges.items()},
        "leaving": {
            "kinds": every,
            "row_width": _NO_LIMIT,
            "rows_narrower_than_features": False,
            "bytes_per_round": _NO_LIMIT,
            "bytes_in_all": _NO_LIMIT,
            "repeats": _NO_LIMIT,
        },
        "data": {"nodes": 1, "labelled": 0, "anchor_share": 1.0},
    }


def _own_names(part: Any) -> list[str]:
    """What a component of Atoll's own is called; a plug-in is admitted by its address."""
    return [] if outside(part) is not None else [part.registered_name]


def open_policy() -> Policy:
    """The policy that :func:`open_table` has for every run."""
    return policy_of(tomli_w.dumps(open_table()), "an open policy", BUILT_IN)
