"""A run held against a policy before its first round: which lines pass, which fail, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from atoll.deploy.policy.declared import Declared, NotRehearsed, declared
from atoll.deploy.policy.protections import protections_of
from atoll.deploy.policy.rules import ALL, Policy
from atoll.errors import AtollError
from atoll.experiment.config import REGISTRIES, Experiment
from atoll.experiment.outside import outside
from atoll.graph import Graph
from atoll.methods.base import Method
from atoll.methods.exposure import exposure


class Refused(AtollError):
    """The site's policy does not admit it. The coordinator learns this name and nothing else."""


@dataclass(frozen=True)
class Line:
    """One rule of a policy: ``passed`` is None where it could not be looked at, and why."""

    rule: str
    passed: bool | None
    why: str


@dataclass(frozen=True)
class Party:
    """What a site has, as far as a policy asks for it."""

    nodes: int
    labelled: int
    anchors: int | None = None


def judged(
    policy: Policy, experiment: Experiment, steps: Declared, features: int, party: Party | None
) -> list[Line]:
    """Every line of a policy about a run. Who submits it is looked at with each request."""
    return [
        *_components(policy, experiment),
        *_ranges(policy, experiment),
        *_leaving(policy, steps, features),
        *_data(policy, experiment.method, party),
        *_required(policy, experiment),
    ]


def steps_of(experiment: Experiment, graph: Graph) -> Declared:
    """What a run's method does at a site with this graph; refused where that can't be said."""
    try:
        many = graph.graph_of is not None
        return declared(experiment, graph.features, graph.classes, graph.class_names, many)
    except NotRehearsed as problem:
        raise Refused(str(problem)) from problem


def passes(lines: Sequence[Line]) -> bool:
    """Whether a site would take part, as far as that can be said."""
    return all(line.passed is not False for line in lines)


def cheap_lines(policy: Policy, experiment: Experiment) -> list[Line]:
    """What can be said before a method is rehearsed, so that nothing refused is ever run."""
    return [
        *_components(policy, experiment),
        *_ranges(policy, experiment),
        *_required(policy, experiment),
    ]


def refuse_failing(policy: Policy, lines: Sequence[Line]) -> None:
    """One sentence that names the first line that fails; nothing if none does."""
    failing = [line for line in lines if line.passed is False]
    if failing:
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        raise Refused(f"{policy.name} refuses the run: {failing[0].why}{more}.")


def refuse_stranger(policy: Policy, coordinator: bytes) -> None:
    """Refuse everything that does not come from a coordinator that may submit runs here.

    ``coordinator`` is the public key of the one who signed; empty if nobody did.
    """
    names = policy.who.coordinators
    if names and (not coordinator or hashlib.sha256(coordinator).hexdigest() not in names):
        who = hashlib.sha256(coordinator).hexdigest() if coordinator else "nobody who signs"
        raise Refused(
            f"refused under {policy.name}: the request is of {who}, which who.coordinators does "
            f"not name."
        )


def methods_within(method: Method) -> Iterator[Method]:
    """A method and those that it wraps."""
    yield method
    for spec in fields(method):
        part = getattr(method, spec.name)
        if isinstance(part, Method):
            yield from methods_within(part)


def _components(policy: Policy, experiment: Experiment) -> Iterator[Line]:
    named, method = policy.admitted, experiment.method
    for inner in methods_within(method):
        if (found := exposure(inner)) is not None:
            name = inner.registered_name
            opted = bool({ALL, name} & set(named.exposes))
            why = f"{name} exposes {found.what} ({found.measured})"
            how = f"; to take part all the same, name '{name}' in methods and exposes of [admitted]"
            yield Line("admitted.exposes", opted, why + (", opted in to" if opted else how))
        yield _named("method", "methods", named.methods, inner)
    yield _named("task", "tasks", named.tasks, method.task)
    yield _named("model", "models", named.models, method.model)
    yield _named("optimizer", "optimizers", named.optimizers, method.optimizer)


def _named(kind: str, key: str, names: tuple[str, ...], part: Any) -> Line:
    name, full = part.registered_name, REGISTRIES[kind][0].full_name
    if outside(part) is not None:
        return Line(f"admitted.{key}", True, f"the {kind} is a plug-in that this site admits")
    if ALL in names or name in {full(one) for one in names}:
        return Line(f"admitted.{key}", True, f"the {kind} '{name}' is admitted")
    return Line(
        f"admitted.{key}",
        False,
        f"the {kind} '{name}' is not admitted; if it is to be, add it to {key} under [admitted]",
    )


def _ranges(policy: Policy, experiment: Experiment) -> Iterator[Line]:
    method = experiment.method
    parts: list[tuple[str, Any]] = [("run", experiment.run), ("task", method.task)]
    parts += [("model", method.model), ("optimizer", method.optimizer)]
    parts += [("method", inner) for inner in methods_within(method)]
    for section, part in parts:
        bounds: Mapping[str, tuple[float, float]] = policy.ranges.get(section, {})
        for key, (low, high) in bounds.items():
            value = getattr(part, key, None)
            if isinstance(value, int | float) and not isinstance(value, bool):
                passed = low <= value <= high
                where = f"{section}.{key}"
                lies = "within" if passed else "not within"
                why = f"{where} is {value:g}, {lies} {low:g} to {high:g}"
                yield Line(f"ranges.{where}", passed, why)


def _leaving(policy: Policy, steps: Declared, features: int) -> Iterator[Line]:
    rules = policy.leaving
    odd = [] if ALL in rules.kinds else sorted(steps.kinds - set(rules.kinds))
    found = ", ".join(sorted(steps.kinds)) or "nothing"
    extra = ", ".join(odd)
    why = f"{extra} would leave, which kinds does not name" if odd else f"{found} would leave"
    yield Line("leaving.kinds", not odd, why)
    widest, name = widest_rows(steps)
    if not widest:
        yield Line("leaving.row_width", True, "no row would leave that stands for one node")
    else:
        rows = f"'{name}' has rows of {widest} numbers"
        passed = widest <= rules.row_width
        most = f"{'at most' if passed else 'more than'} {rules.row_width}"
        yield Line("leaving.row_width", passed, f"{rows}, {most}")
        if rules.rows_narrower_than_features:
            passed = widest < features
            than = f"{'fewer than' if passed else 'not fewer than'} the {features} features"
            yield Line("leaving.rows_narrower_than_features", passed, f"{rows}, {than}")
    size, most_bytes = steps.bytes_per_round(), rules.bytes_per_round
    over = "" if size <= most_bytes else ", more than"
    why = f"at least {size:,} bytes would leave per round{over or ', of at most'} {most_bytes:,}"
    yield Line("leaving.bytes_per_round", size <= most_bytes, why)


def widest_rows(steps: Declared) -> tuple[int, str]:
    """The most numbers of a row that stands for a node or an entity, and what it is called."""
    rows = [
        (part.width, name)
        for exchange in steps.exchanges
        for name, form in exchange.leaving.items()
        for part in form
        if part.width > 1  # entries of a masked weight are rows of one number
    ]
    return max(rows, default=(0, ""))


def _data(policy: Policy, method: Method, party: Party | None) -> Iterator[Line]:
    rules = policy.data
    if party is None:
        told = "not known here; name this site's folder with --party"
        yield Line("data.nodes", None, told)
        yield Line("data.labelled", None, told)
    else:
        yield _at_least("data.nodes", "nodes", party.nodes, rules.nodes)
        yield _at_least("data.labelled", "nodes to train on", party.labelled, rules.labelled)
    if method.needs_anchors:
        yield anchor_line(policy, party)


def anchor_line(policy: Policy, party: Party | None) -> Line:
    """Whether few enough of the nodes are held by others, too."""
    most = policy.data.anchor_share
    if party is None or party.anchors is None:
        why = f"looked at when anchors are matched: at most {most:.0%} of the nodes"
        return Line("data.anchor_share", None if most else False, why)
    share = party.anchors / max(party.nodes, 1)
    passed = share <= most
    why = f"{share:.0%} of the nodes are anchors, {'at most' if passed else 'more than'} {most:.0%}"
    return Line("data.anchor_share", passed, why)


def _at_least(rule: str, what: str, found: int, least: int) -> Line:
    passed = found >= least
    return Line(rule, passed, f"{found} {what}, {'at least' if passed else 'fewer than'} {least}")


def _required(policy: Policy, experiment: Experiment) -> Iterator[Line]:
    rules, has = policy.required, protections_of(experiment)
    if rules.secure_sum:
        why = "replies are summed securely" if has.secure_sum else "replies are not summed securely"
        yield Line("required.secure_sum", has.secure_sum, why)
    if rules.epsilon:
        passed = has.epsilon <= rules.epsilon
        why = f"epsilon is {has.epsilon:g}" if has.delta else "no noise is added"
        yield Line("required.epsilon", passed, f"{why}; at most {rules.epsilon:g} is admitted")
    if has.delta and (rules.epsilon or rules.epsilon_in_all):
        passed = has.delta <= rules.delta  # at a delta near 1 hardly any noise has any epsilon
        least = f"{'at most' if passed else 'more than'} {rules.delta:g}"
        yield Line("required.delta", passed, f"delta is {has.delta:g}, {least}")
    if rules.epsilon or rules.epsilon_in_all:
        hides = has.unit in (rules.unit, "client")
        why = f"the noise hides one {has.unit}'s part, {'as' if hides else 'and not'} required"
        yield Line("required.unit", hides, why if hides else f"{why}, a {rules.unit}'s")
    if most := rules.epsilon_in_all:
        if has.epsilon > most:
            why = "no noise with a budget is added" if not has.delta else f"{has.epsilon:g} is more"
            yield Line("required.epsilon_in_all", False, f"{why}; all runs may spend {most:g}")
        else:
            why = f"{has.epsilon:g} of {most:g}; added to other runs' when it begins"
            yield Line("required.epsilon_in_all", None, why)
