"""What happens to machines: the server killed, disks full, TERM, a clock that is set back.

Each must leave the same SHA-256 of the final parameters as a run that nobody disturbs. All sites
are waited for (``quorum`` is their number): a round without one of them is another run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from atoll.deploy.journal import Journal
from atoll.deploy.local import LocalFederation
from atoll.deploy.marks import marked
from atoll.errors import AtollError
from atoll.experiment.run_dir import is_complete
from rehearsal import Case, once, sha, start_server_again, start_site_again

# Between the kills of one run: seconds after the server was started, and after its first round.
_STARTING = {"nvflare": 30.0, "flower": 90.0}
_IN_ROUNDS = {"nvflare": 6.0, "flower": 40.0}
_KILLS_PER_RUN = {"nvflare": 10, "flower": 4}
_SECONDS_TO_STOP = 30.0  # what systemd gives a unit that is stopped (TimeoutStopSec)
_DAY = 86_400
# What every Python process of a federation then begins with.
_CLOCK = """
import time
from pathlib import Path

_now, _offset = time.time, Path({offset!r})
time.time = lambda: _now() + float(_offset.read_text() or 0)
"""


def server(case: Case, kills: int, seed: int) -> str:
    """The server is killed at random moments, and started again: the same SHA-256 as undisturbed.

    One kill in three comes while it starts, the others while rounds are made. What was done before
    is in ``kills.json`` of the folder, so that a second call goes on.
    """
    case.undisturbed()
    expected = sha(case.root / "undisturbed")
    file = case.root / "kills.json"
    runs: list[int] = json.loads(file.read_text()) if file.is_file() else []
    while sum(runs) < kills:
        name, most = f"run-{len(runs)}", min(_KILLS_PER_RUN[case.engine], kills - sum(runs))
        case.clear(name)  # of a call that was interrupted
        runs.append(_killed_again_and_again(case, name, most, random.Random(f"{seed} {name}")))
        assert sha(case.run_dir) == expected, f"{name} after {runs[-1]} kills"
        file.write_text(json.dumps(runs))
        print(f"  {sum(runs)} kills: {name} ends with the same bytes", flush=True)
    return f"{sum(runs)} kills in {len(runs)} runs, each with the same bytes ({expected[:8]}...)"


def _killed_again_and_again(case: Case, name: str, most: int, rng: random.Random) -> int:
    """A run whose server is killed so often, or less often if it is complete before."""
    kills = 0
    with case.standing(name) as (stage, again):
        while not is_complete(case.run_dir):
            at = Journal(case.run_dir).status()
            kill = _Kill(stage, rng, case.engine, int(at.get("round", 0)))
            try:
                if kills < most:
                    kill.begin()
                if kills:
                    stage.connect_operator()
                again(kill.harm if kills < most else lambda stage, round: None)
            except AtollError:
                if not kill.done:
                    raise
            kill.cancel()
            if kill.done:
                kills += 1
                at = Journal(case.run_dir).status()
                where = f"round {at.get('round', 0)}, attempt {at.get('attempt', 0)}"
                print(f"  kill {kills} of {name}: {kill.moment}, after {where}", flush=True)
                stage.operator.close()
                stage.start_server()
        return kills


class _Kill:
    """The server of a federation ends as by a power cut, while it starts or some time later."""

    def __init__(
        self, stage: LocalFederation, rng: random.Random, engine: str, rounds: int
    ) -> None:
        self.victim = stage.processes.members["the server"]
        self.moment = "at the start" if rng.random() < 1 / 3 else "in rounds"
        most = _STARTING if self.moment == "at the start" else _IN_ROUNDS
        self.timer = threading.Timer(rng.uniform(0.0, most[engine]), self._kill)
        self.timer.daemon = True
        self.done = False
        self.harm = once(lambda _: self._start("in rounds"), after=rounds + 1)

    def begin(self) -> None:
        """The server has been started."""
        self._start("at the start")

    def cancel(self) -> None:
        if self.timer.ident is not None:
            self.timer.cancel()
            self.timer.join()

    def _start(self, moment: str) -> None:
        if moment == self.moment:
            self.timer.start()

    def _kill(self) -> None:
        self.done = True
        self.victim.kill()


def server_disk(case: Case) -> str:
    """The disk of the server's run is full: it stops, and goes on to the same SHA-256."""
    case.undisturbed()
    with _small_disk(case.root / "run") as disk, case.standing("run") as (_, again):
        try:
            again(once(lambda _: _fill(disk), after=3))
            raise AssertionError("nothing stopped it")
        except AtollError as problem:
            said = str(problem)
        (disk / "filler").unlink()
        stopped = int(Journal(disk).status()["round"])
        again(lambda stage, round: None)
        _same(case)
    return f"stopped after round {stopped} (“{said.partition(';')[0]}”), then the same bytes"


def site_disk(case: Case) -> str:
    """A site's disk is full: the round is begun anew until there is room, to the same SHA-256."""
    case.undisturbed()
    first = next(iter(case.sites))
    with _small_disk(case.root / "run-federation" / "state" / first) as disk:
        waited: list[float] = []

        def fill(_: LocalFederation) -> None:
            _fill(disk)
            began = time.monotonic()

            def make_room() -> None:
                (disk / "filler").unlink()
                waited.append(time.monotonic() - began)

            threading.Timer(20.0, make_room).start()

        with case.standing("run") as (_, again):
            again(once(fill, after=3))
            _same(case)
            attempts = int(Journal(case.run_dir).status()["attempt"])
        assert waited, "there was room all the time"
        assert attempts > 1, "nothing was begun anew"
    return f"no room for {waited[0]:.0f} s, {attempts} attempts, then the same bytes"


def term(case: Case) -> str:
    """TERM to the server, to a site and to `atoll up`: all end in time, to the same SHA-256."""
    case.undisturbed()
    first = next(iter(case.sites))
    took: dict[str, float] = {}
    with case.standing("run") as (stage, again):
        with contextlib.suppress(AtollError):
            again(once(lambda s: took.update(server=_terminated(s, "the server")), after=3))
        assert "server" in took, "the run did not come so far"
        assert not is_complete(case.run_dir), "the server went on"
        start_server_again(stage)

        def site_ends(stage: LocalFederation) -> None:
            took["site"] = _terminated(stage, f"site {first}")
            start_site_again(stage, first)

        again(once(site_ends, after=int(Journal(case.run_dir).status()["round"]) + 2))
        _same(case)
    took["atoll up"] = _up_ends(case)
    times = ", ".join(f"{who} {seconds:.0f} s" for who, seconds in took.items())
    return f"ended in order ({times}), then the same bytes"


def _terminated(stage: LocalFederation, name: str) -> float:
    """TERM to all its processes, as ``systemctl stop`` does; how long they take to end."""
    process, began = stage.processes.members[name], time.monotonic()
    members = marked({process.mark})
    for one in members:
        with contextlib.suppress(psutil.Error):
            one.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs(members, timeout=_SECONDS_TO_STOP)
    took = time.monotonic() - began
    print(f"  TERM: {name} ends after {took:.0f} s; {len(left)} processes had to be killed")
    process.kill()
    return took


def _up_ends(case: Case) -> float:
    """The command that rehearses all on one machine gets a TERM, and is continued."""
    run_dir = case.root / "up"
    method = case.experiment.method.registered_name
    options = ["--engine", case.engine, "--method", method, "--quorum", str(len(case.sites))]
    settings = ["model.hidden=16", "run.threads=1", f"run.rounds={case.experiment.run.rounds}"]
    for setting in settings:
        options += ["--set", setting]
    command = [sys.executable, "-m", "atoll", "up", "--sites", str(case.folder), *options]
    with subprocess.Popen([*command, "--out", str(run_dir)], stdout=subprocess.DEVNULL) as up:
        while up.poll() is None and Journal(run_dir).status().get("round", 0) < 3:
            time.sleep(0.1)
        began = time.monotonic()
        up.terminate()
        code = up.wait(_SECONDS_TO_STOP + 60)
    took = time.monotonic() - began
    stopped = Journal(run_dir).status()
    assert code, f"it ended with {code}, in round {stopped.get('round')}"
    resume = [sys.executable, "-m", "atoll", "resume", str(run_dir)]
    subprocess.run(resume, check=True, stdout=subprocess.DEVNULL)
    case.run_dir = run_dir
    _same(case)
    return took


def clock(case: Case) -> str:
    """Everybody's clocks are set back by a day in mid-run: the same SHA-256."""
    case.undisturbed()
    folder = case.root / "clock"
    folder.mkdir(exist_ok=True)
    offset = folder / "offset"
    offset.write_text("0")
    (folder / "sitecustomize.py").write_text(_CLOCK.format(offset=str(offset)))
    after, now = [], time.time

    def set_back(_: LocalFederation) -> None:
        status = Journal(case.run_dir).status()
        offset.write_text(str(-_DAY))
        after.append(int(status["round"]))

    os.environ["PYTHONPATH"] = str(folder)
    time.time = lambda: now() + float(offset.read_text() or 0)  # the operator is on that machine
    try:
        with case.standing("run") as (_, again):
            again(once(set_back, after=3))
    finally:
        del os.environ["PYTHONPATH"]
        time.time = now
    status = Journal(case.run_dir).status()
    assert now() - status["time"] > _DAY / 2, "the clock was not set back"
    _same(case)
    return f"set back by a day after round {after[0]}, then the same bytes"


@contextlib.contextmanager
def _small_disk(folder: Path, megabytes: int = 16) -> Iterator[Path]:
    """A file system of its own in memory; needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={megabytes}m,mode=0700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]).returncode:
        raise AtollError("a small disk can't be mounted; run this case as root.")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _same(case: Case) -> None:
    assert sha(case.run_dir) == sha(case.root / "undisturbed"), "other bytes than undisturbed"


DISASTERS: dict[str, tuple[Callable[..., str], dict[str, float]]] = {
    "server": (server, {"rounds": 60, "deadline": 60.0, "patience": 300.0, "quorum": 3}),
    "server-disk": (server_disk, {"rounds": 12, "deadline": 60.0, "quorum": 3}),
    "site-disk": (site_disk, {"rounds": 12, "deadline": 60.0, "quorum": 3}),
    "term": (term, {"rounds": 40, "deadline": 60.0, "patience": 300.0, "quorum": 3}),
    "clock": (clock, {"rounds": 12, "deadline": 60.0, "patience": 300.0, "quorum": 3}),
}
