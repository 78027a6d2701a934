"""Faults on real federations of this machine: sites and servers killed, stragglers, full disks.

    python benchmarks/faults.py [killed] [returned] [straggler] [quorum] [smaller] [crowd]
        [server] [server-disk] [site-disk] [term] [clock] [--engine nvflare]
        [--method fed-pub] [--kills 10] [--seeds 3] [--quorum N] [--folder DIR] [--keep]

Each case prints what it did and what it showed, and the exit code is 1 if one failed. Nothing can
hang: every case has a bound. With ``--folder`` what runs leave behind stays there, and ``server``
called again with more ``--kills``, or ``crowd`` with more ``--seeds``, goes on where it ended. Full
disks need root. ``--keep`` puts the outcomes into docs/deployment.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars

import findings
from atoll.deploy.journal import Journal
from atoll.deploy.local import LocalFederation
from atoll.errors import AtollError
from atoll.experiment.checkpoint import load_checkpoint
from atoll.experiment.result import Result
from atoll.experiment.run_dir import is_complete
from disasters import DISASTERS
from rehearsal import CORA, Case, once, sizes_of, start_server_again, start_site_again

_BOUND = {"nvflare": 1200.0, "flower": 2400.0}
_BOUND_PER_KILL = {"nvflare": 120.0, "flower": 400.0}


def killed(case: Case) -> str:
    """A site is killed and stays dead: the run completes without it."""
    dead = once(lambda stage: stage.processes.members[f"site {_first(case)}"].kill(), after=2)
    result = case.run(dead)
    sizes = sizes_of(result)
    assert sizes[1] == 3, sizes
    assert sizes[max(sizes)] == 2, sizes
    return f"all {len(sizes)} rounds, {_short(sizes)} of them with two sites"


def returned(case: Case) -> str:
    """A site is killed and started again: it is back in before the run ends."""
    first = _first(case)
    soon = case.engine == "flower"
    dead = once(lambda stage: stage.processes.members[f"site {first}"].kill(), 1 if soon else 2)
    back = once(lambda stage: start_site_again(stage, first), 2 if soon else 5)

    def harm(stage: LocalFederation, round: int) -> None:
        dead(stage, round)
        back(stage, round)

    result = case.run(harm)
    sizes = sizes_of(result)
    assert 2 in sizes.values(), sizes
    assert sizes[max(sizes)] == 3, sizes
    return f"missed {_short(sizes)} of {len(sizes)} rounds, in the last ones again"


def straggler(case: Case) -> str:
    """A site takes ten times the deadline: the run completes without it."""
    slow = {_first(case): str(10 * case.terms.deadline)}
    sizes = sizes_of(case.run(slow=slow))
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


def smaller(case: Case) -> str:
    """The server and a site are killed, and only the server is started again: a quorum goes on."""
    first = _first(case)

    def harm(stage: LocalFederation) -> None:
        stage.processes.members[f"site {first}"].kill()
        stage.processes.members["the server"].kill()

    with case.standing("run") as (stage, again):
        with contextlib.suppress(AtollError):
            again(once(harm, after=3))
        assert not is_complete(case.run_dir), "nothing stopped it"
        stopped = int(Journal(case.run_dir).status()["round"])
        del stage.processes.members[f"site {first}"]  # nobody waits for it to come up
        start_server_again(stage)
        began, went_on = time.monotonic(), []
        result = again(once(lambda _: went_on.append(time.monotonic() - began), stopped + 1))
    sizes = sizes_of(result)
    assert list(sizes) == list(range(1, case.experiment.run.rounds + 1)), sizes
    assert {r for r, size in sizes.items() if size == 3} == set(range(1, stopped + 1)), sizes
    return (
        f"after round {stopped}; the two that were left made the next one {went_on[0]:.0f} s "
        f"later, and all {len(sizes)} to the end"
    )


def crowd(case: Case, seeds: int) -> str:
    """Three of ten sites are killed, one after the other: the run completes, within a point.

    The same seven sites are compared, in the mean over seeds: of a single one the accuracies differ
    by two points either way. Seeds that are done are in ``seeds.json`` of the folder.
    """
    case.root.mkdir(parents=True, exist_ok=True)
    file = case.root / "seeds.json"
    done: list[list[float]] = json.loads(file.read_text()) if file.is_file() else []
    for seed in range(len(done), seeds):
        done.append(_crowd_of(case.with_seed(seed)))
        file.write_text(json.dumps(done))
        print(f"  seed {seed}: undisturbed {done[-1][0]:.1f}, killed {done[-1][1]:.1f}", flush=True)
    before, after = (statistics.fmean(one) for one in zip(*done, strict=True))
    assert before - after <= 1.0, f"{before:.1f} -> {after:.1f}"
    return (
        f"all {case.experiment.run.rounds} rounds, the last with seven sites, whose test accuracy "
        f"is {after:.1f} (undisturbed {before:.1f}; mean of {len(done)} seeds)"
    )


def _crowd_of(case: Case) -> list[float]:
    """What the seven sites have that are left, undisturbed and not, in percent."""
    honest = case.undisturbed()
    dead = list(case.sites)[1::3]
    rounds = case.experiment.run.rounds
    kills = [
        once(lambda stage, site=site: stage.processes.members[f"site {site}"].kill(), after)
        for site, after in zip(dead, (rounds // 6, rounds // 3, rounds // 2), strict=True)
    ]

    def harm(stage: LocalFederation, round: int) -> None:
        for kill in kills:
            kill(stage, round)

    result = case.run(harm)
    sizes = sizes_of(result)
    assert len(sizes) == rounds, sizes
    assert sizes[rounds] == 7, sizes
    left = [k for k, site in enumerate(case.sites) if site not in dead]
    return [_accuracy(one, left) for one in (honest, result)]


def _accuracy(result: Result, clients: list[int]) -> float:
    """Of some clients, in percent, in the round with their best validation accuracy."""
    theirs = result.history.filter(polars.col("client").is_in(clients))
    rounds = theirs.group_by("round").agg(polars.col("val_accuracy", "test_accuracy").mean())
    best = rounds.sort("val_accuracy", "round", descending=[True, False]).row(0, named=True)
    return 100 * float(best["test_accuracy"])


def _first(case: Case) -> str:
    return next(iter(case.sites))


def _short(sizes: dict[int, int]) -> int:
    return sum(size == 2 for size in sizes.values())


CASES = {
    "killed": (killed, {"rounds": 12, "deadline": 5.0}),
    "returned": (returned, {"rounds": 60, "deadline": 5.0}),
    "straggler": (straggler, {"rounds": 6, "deadline": 3.0}),
    "quorum": (quorum, {"rounds": 40, "deadline": 5.0, "patience": 15.0}),
    "smaller": (smaller, {"rounds": 12, "deadline": 30.0, "patience": 300.0, "quorum": 2}),
    "crowd": (crowd, {"rounds": 100, "deadline": 20.0, "patience": 300.0, "of": CORA}),
    **DISASTERS,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--engine", default="nvflare")
    parser.add_argument("--method", default="fed-pub")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="for what the runs leave behind")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of kills")
    parser.add_argument("--seeds", type=int, default=3, help="of crowd")
    parser.add_argument("--quorum", type=int, help="instead of the case's own")
    given = parser.parse_args()
    failed = 0
    for name in given.cases or CASES:
        bound = _BOUND[given.engine]
        more: tuple = ()
        if name == "server":
            more = (given.kills, given.seed)
            bound += given.kills * _BOUND_PER_KILL[given.engine]
        if name == "crowd":
            more = (given.seeds,)
            bound *= 2 * given.seeds
        watchdog = threading.Timer(bound, partial(_give_up, name))
        watchdog.daemon = True
        watchdog.start()
        failed += not _tried(name, given, more)
        watchdog.cancel()
    return 1 if failed else 0


def _tried(name: str, given: argparse.Namespace, more: tuple) -> bool:
    """Whether a case has shown what it must; says so, and keeps it where that is wanted."""
    check, settings = CASES[name]
    if given.quorum is not None:
        settings = settings | {"quorum": given.quorum}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = given.folder / given.engine / name if given.folder else Path(folder)
        try:
            said, good = check(Case(root, given.engine, given.method, **settings), *more), True
        except (AssertionError, AtollError) as problem:
            said, good = f"FAILED: {problem}", False
    print(f"{name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)
    if given.keep and good:
        findings.keep("faults", _row(check), given.engine, said)
    return good


def _row(check: Callable[..., str]) -> str:
    """What was done, as its docstring says it."""
    said = str(check.__doc__).partition(":")[0]
    return said if said[:4].isupper() else said[0].lower() + said[1:]


def _give_up(name: str) -> None:
    """A hang is a failure: interrupt the main thread, which cleans up."""
    import _thread

    print(f"{name}: FAILED, it hangs", file=sys.stderr, flush=True)
    _thread.interrupt_main()
    _thread.interrupt_main()


if __name__ == "__main__":
    sys.exit(main())
