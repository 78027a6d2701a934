"""What a site would say to a run, before there is one."""

from __future__ import annotations

from pathlib import Path

from atoll.data.parties import load_party
from atoll.deploy.policy.declared import declared
from atoll.deploy.policy.default import policy_at
from atoll.deploy.policy.judging import Line, Party, cheap_lines, judged, steps_of
from atoll.deploy.policy.rules import Policy
from atoll.experiment.config import Experiment
from atoll.experiment.trial import CLASSES, FEATURES


def run_judged(
    file: Path | None, experiment: Experiment, folder: Path | None
) -> tuple[Policy, list[Line]]:
    """The policy of a file, or the built-in one, and its lines about a run.

    With a site's ``folder`` of data they are about that site; without, about one with the sizes of
    the small built-in parties.
    """
    policy, method = policy_at(file), experiment.method
    if method.pooled or method.only_simulated:
        why = method.only_simulated or "it trains on everybody's data in one place"
        line = Line("deployment", False, f"{method.registered_name} can't be deployed: {why}")
        return policy, [line, *cheap_lines(policy, experiment)]
    if folder is None:
        steps = declared(
            experiment, FEATURES, CLASSES, collection=method.task.registered_name == "graphs"
        )
        return policy, judged(policy, experiment, steps, FEATURES, None)
    graph = load_party(folder)
    party = Party(graph.nodes, int(graph.train.sum()))
    steps = steps_of(experiment, graph)
    return policy, judged(policy, experiment, steps, graph.features, party)
