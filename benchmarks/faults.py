"""Faults on real federations of this machine: sites and servers killed, stragglers, no quorum.

    python benchmarks/faults.py [killed] [returned] [straggler] [quorum] [server] [--engine nvflare]
        [--kills 10] [--method fed-pub] [--keep]

Each case prints what it did and what it showed, and the exit code is 1 if one failed. Nothing can
hang: every case has a bound. ``--keep`` puts the outcomes into docs/deployment.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import findings
from atoll.data.parties import party_folders, write_parties
from atoll.deploy.local import LocalFederation, federation
from atoll.deploy.plan import Terms, new_plan, read_plan
from atoll.deploy.settings import SLOW
from atoll.deploy.up import resume_up, site_names, up
from atoll.errors import AtollError
from atoll.experiment.checkpoint import load_checkpoint
from atoll.experiment.config import resolve
from atoll.experiment.result import Result
from atoll.experiment.run_dir import store_setup
from atoll.experiment.runner import load_parties

_BOUND = {"nvflare": 400.0, "flower": 1200.0}
# A site's steps are slowed down to this, so that there is time to do harm.
_STEP_SECONDS = {"nvflare": "0.4", "flower": "0"}
# What a round takes at the least; the server is killed within that many times the rounds.
_ROUND_SECONDS = {"nvflare": 0.8, "flower": 12.0}


class Case:
    """A fresh federation of three sites and a run on it."""

    def __init__(self, root: Path, engine: str, method: str, rounds: int, **terms: float) -> None:
        self.root, self.engine = root, engine
        if engine == "flower":
            # A message takes Flower seconds, since it starts a process for each.
            terms["deadline"] = 12 * terms.get("deadline", 5.0)
            rounds = {60: 8, 12: 4, 6: 3}.get(rounds, rounds)
        self.folder = root / "sites"
        write_parties(load_parties(_experiment("digits", method, rounds)).graphs, self.folder)
        self.experiment = _experiment(str(self.folder), method, rounds)
        self.sites = site_names(party_folders(str(self.folder)))
        self.terms = Terms(**({"deadline": 60.0, "patience": 120.0} | terms))
        self.seen: list[int] = []

    def run(self, harm=lambda stage, round: None, slow: dict[str, str] | None = None) -> Result:
        """Run it; ``harm`` is called after every round that is seen."""
        plan = new_plan(self.engine, tuple(self.sites), self.experiment, self.terms)
        run_dir = self.root / "run"
        run_dir.mkdir()
        store_setup(run_dir, self.experiment, 1)
        plan.store(run_dir)
        self.run_dir = run_dir
        slow = dict.fromkeys(self.sites, _STEP_SECONDS[self.engine]) | (slow or {})
        with federation(self.root / "federation", self.engine, self.sites, slow) as stage:
            self.stage = stage

            def progress(round: int, _: float) -> None:
                self.seen.append(round)
                harm(stage, round)

            return stage.run(plan, run_dir, progress)


def killed(case: Case) -> str:
    """A site is killed and stays dead: the run completes without it."""
    dead = _once(lambda stage: stage.processes.members[f"site {_first(case)}"].kill(), after=2)
    result = case.run(dead)
    sizes = _sizes(result)
    assert sizes[1] == 3, sizes
    assert sizes[max(sizes)] == 2, sizes
    return f"all {len(sizes)} rounds, {_short(sizes)} of them with two sites"


def returned(case: Case) -> str:
    """A site is killed and started again: it is back in before the run ends."""
    first = _first(case)
    soon = case.engine == "flower"
    dead = _once(lambda stage: stage.processes.members[f"site {first}"].kill(), 1 if soon else 2)
    back = _once(lambda stage: _restart(stage, first), 2 if soon else 5)

    def harm(stage: LocalFederation, round: int) -> None:
        dead(stage, round)
        back(stage, round)

    result = case.run(harm)
    sizes = _sizes(result)
    assert 2 in sizes.values(), sizes
    assert sizes[max(sizes)] == 3, sizes
    return f"missed {_short(sizes)} of {len(sizes)} rounds, in the last ones again"


def straggler(case: Case) -> str:
    """A site takes ten times the deadline: the run completes without it."""
    slow = {_first(case): str(10 * case.terms.deadline)}
    sizes = _sizes(case.run(slow=slow))
    assert set(sizes.values()) == {2}, sizes
    return f"all {len(sizes)} rounds with the other two"


def quorum(case: Case) -> str:
    """Two of three sites die: it waits, stops with a sentence, and the model is untouched."""

    def harm(stage: LocalFederation, round: int) -> None:
        if round >= 2:
            for site in list(case.sites)[:2]:
                if stage.processes.members[f"site {site}"].alive:
                    stage.processes.members[f"site {site}"].kill()

    try:
        case.run(harm)
    except AtollError as problem:
        sentence = str(problem)
    else:
        raise AssertionError("it went on without a quorum")
    assert "fewer than the quorum of 2" in sentence, sentence
    checkpoint = load_checkpoint(case.run_dir)
    assert checkpoint is not None
    assert f"that of round {checkpoint[0]};" in sentence, sentence
    return f"stopped after round {checkpoint[0]}: “{sentence.partition(' (')[0]} ...”"


def server(case: Case, kills: int, rng: random.Random) -> str:
    """The server is killed at random moments, each resumed: the same SHA-256 as undisturbed."""
    expected = _sha(up(str(case.folder), case.experiment, case.engine, case.terms,
                       case.root / "whole").run_dir)  # fmt: skip
    for kill in range(kills):
        root = case.root / f"kill-{kill}"
        root.mkdir()
        again = Case(root, case.engine, case.experiment.method.registered_name,
                     case.experiment.run.rounds)  # fmt: skip
        delay = rng.uniform(0.0, _ROUND_SECONDS[case.engine] * case.experiment.run.rounds)
        try:
            again.run(_once(partial(_kill_server_later, delay), after=1))
            raise AssertionError("the server was not killed in time")
        except AtollError as problem:
            if "the server died" not in str(problem):
                raise
        _resume(again)
        assert _sha(again.run_dir) == expected, f"kill {kill}"
        print(f"  kill {kill + 1}: {delay:.1f} s into the rounds, same bytes", flush=True)
    return f"{kills} kills, each resumed to the same bytes ({expected[:8]}...)"


def _kill_server_later(delay: float, stage: LocalFederation) -> None:
    timer = threading.Timer(delay, stage.processes.members["the server"].kill)
    timer.daemon = True
    timer.start()


def _resume(case: Case) -> None:
    file = case.run_dir / "federation" / "folder.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"folder": str(case.folder)}))
    # The sites' states are those of the first federation.
    target = case.run_dir / "federation"
    for part in ("kits", "state"):
        (case.root / "federation" / part).rename(target / part)
    assert read_plan(case.run_dir)
    resume_up(case.run_dir)


def _experiment(data: str, method: str, rounds: int):
    parties = data != "digits"
    return resolve(
        {
            "data": {"name": "parties", "folder": data} if parties else {"name": data},
            "partition": {"name": "natural"} if parties else {"name": "louvain", "clients": 3},
            "split": {"kind": "public" if parties else "random"},
            "method": {"name": method},
            "model": {"name": "gcn", "hidden": 16},
            "run": {"rounds": rounds, "threads": 1},
        }
    )


def _once(do, after: int):
    done: list[int] = []

    def harm(stage: LocalFederation, round: int) -> None:
        if round >= after and not done:
            done.append(round)
            do(stage)

    return harm


def _restart(stage: LocalFederation, site: str) -> None:
    stage.start_site(site, {SLOW: "0.4"})


def _first(case: Case) -> str:
    return next(iter(case.sites))


def _short(sizes: dict[int, int]) -> int:
    return sum(size == 2 for size in sizes.values())


def _sizes(result: Result) -> dict[int, int]:
    return dict(sorted(result.history.group_by("round").len().iter_rows()))


def _sha(run_dir: Path) -> str:
    return hashlib.sha256((run_dir / "parameters.safetensors").read_bytes()).hexdigest()


CASES = {
    "killed": (killed, {"rounds": 12, "deadline": 5.0}),
    "returned": (returned, {"rounds": 60, "deadline": 5.0}),
    "straggler": (straggler, {"rounds": 6, "deadline": 3.0}),
    "quorum": (quorum, {"rounds": 40, "deadline": 5.0, "patience": 15.0}),
    "server": (server, {"rounds": 12}),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--engine", default="nvflare")
    parser.add_argument("--method", default="fed-pub")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="for what the runs leave behind")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = 0
    for name in given.cases or CASES:
        check, settings = CASES[name]
        bound = _BOUND[given.engine] * (given.kills if name == "server" else 1)
        watchdog = threading.Timer(bound, partial(_give_up, name))
        watchdog.daemon = True
        watchdog.start()
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            root = given.folder / name if given.folder else Path(folder)
            case = Case(root, given.engine, given.method, **settings)
            more = (given.kills, random.Random(given.seed)) if name == "server" else ()
            try:
                said = check(case, *more)
            except AssertionError as problem:
                failed += 1
                said = f"FAILED: {problem}"
        watchdog.cancel()
        print(f"{name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)
        if given.keep:
            findings.keep("faults", check.__doc__.partition(":")[0].lower(), given.engine, said)
    return 1 if failed else 0


def _give_up(name: str) -> None:
    """A hang is a failure: interrupt the main thread, which cleans up."""
    import _thread

    print(f"{name}: FAILED, it hangs", file=sys.stderr, flush=True)
    _thread.interrupt_main()
    _thread.interrupt_main()


if __name__ == "__main__":
    sys.exit(main())
