"""Policies and runs held against them: a mutant admits no more than it says itself.

python fuzz/policies.py [--count 1000000] [--seed 0] [--only MUTANT]

A mutated policy is read or refused in words; where a run passes a line that it fails under the
policy that the file is read over, the file itself must say so. A mutated run is refused, or all of
its parts are named by the policy and all of its numbers lie within its ranges.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from atoll.deploy.policy.default import BUILT_IN, TEXT, open_table
from atoll.deploy.policy.judging import cheap_lines, methods_within
from atoll.deploy.policy.rules import ALL, Policy, policy_of, read_policy
from atoll.errors import AtollError
from atoll.experiment.config import Experiment, describe, read_table, resolve
from atoll.plugins import admitting
from harness import Failure, Target, main

# The policy of a careful site, which what a file leaves out is as in.
_STRICT = """
[admitted]
methods = ["fed-avg", "local"]
models = ["gcn"]
optimizers = ["adam"]
[ranges.run]
rounds = [1, 20]
[ranges.optimizer]
lr = [1e-3, 0.1]
[required]
secure_sum = true
"""
_GOOD: dict[str, Any] = {
    "method": {"name": "fed-avg", "epochs": 2},
    "model": {"name": "gcn", "hidden": 16},
    "optimizer": {"name": "adam", "lr": 0.01},
    "run": {"rounds": 3},
    "privacy": {"secure_sum": True},
}
_RUNS: list[dict[str, Any]] = [
    _GOOD,
    _GOOD | {"method": {"name": "fed-gala"}},
    _GOOD | {"method": {"name": "fed-pub"}, "model": {"name": "sage", "hidden": 4096}},
    _GOOD | {"optimizer": {"name": "sgd", "lr": 1e6}, "run": {"rounds": 10**6}, "privacy": {}},
]
_COMPONENTS = {"task": "tasks", "model": "models", "optimizer": "optimizers"}


def make(folder: Path) -> Target:
    strict = policy_of(_STRICT, "a strict policy", BUILT_IN)
    runs = [resolve(table) for table in _RUNS]
    failing = [{line.rule for line in _lines(strict, run) if not line.passed} for run in runs]
    assert not failing[0]
    assert all(failing[1:])
    policies = [TEXT, _STRICT, tomli_w.dumps(open_table(runs[1])), tomli_w.dumps(open_table())]
    jobs = [tomli_w.dumps(table) for table in (*_RUNS, describe(runs[0]))]
    path = folder / "policy.toml"

    def attempt(content: bytes) -> bool:
        path.write_bytes(content)
        with admitting(()):
            try:
                if b"[method]" in content:
                    return _run_is_refused_or_named(strict, path)
                policy = read_policy(path, strict)
            except AtollError:
                return False
            said = tomllib.loads(path.read_text())
            for run, before in zip(runs, failing, strict=True):
                still = {line.rule for line in _lines(policy, run) if not line.passed}
                for rule in before - still:
                    if not _says(said, rule, run):
                        raise Failure(f"{rule} admits what the file does not")
        return True

    return Target([text.encode() for text in (*policies, *jobs)], attempt)


def _lines(policy: Policy, run: Experiment) -> list[Any]:
    return cheap_lines(policy, run)


def _says(said: dict[str, Any], rule: str, run: Experiment) -> bool:
    """Whether a file's own words admit what a rule is about."""
    section, *keys = rule.split(".")
    value: Any = said.get(section, {})
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if section == "admitted":
        method = run.method
        parts = {"methods": method, "exposes": method}
        parts |= {key: getattr(method, kind) for kind, key in _COMPONENTS.items()}
        names = {str(name) for name in value or ()}
        return bool(names) and (ALL in names or parts[keys[0]].registered_name in names)
    if section == "ranges":
        part = run.run if keys[0] == "run" else getattr(run.method, keys[0], run.method)
        number = getattr(part, keys[1])
        return isinstance(value, list) and value[0] <= number <= value[1]
    return section in said and keys[0] in said[section]


def _run_is_refused_or_named(strict: Policy, path: Path) -> bool:
    run = resolve(read_table(path))
    if not all(line.passed for line in _lines(strict, run)):
        return False
    method, named = run.method, strict.admitted
    for inner in methods_within(method):
        if inner.registered_name not in named.methods:
            raise Failure(f"the method {inner.registered_name} is admitted")
    for kind, key in _COMPONENTS.items():
        if getattr(method, kind).registered_name not in getattr(named, key):
            raise Failure(f"the {kind} is admitted")
    if not (1 <= run.run.rounds <= 20 and run.privacy.secure_sum):
        raise Failure("rounds or protections that are not admitted")
    if not 1e-3 <= float(getattr(method.optimizer, "lr", 0.0)) <= 0.1:
        raise Failure("a rate that is not admitted")
    return True


if __name__ == "__main__":
    main(make, __file__, __doc__)
