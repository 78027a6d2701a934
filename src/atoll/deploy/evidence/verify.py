"""Evidence verified: one side by itself, and both sides against each other.

A side by itself shows that its chain is whole and that the signatures in it are good. Where the end
is missing, or all was written anew with another key, the other side tells: it has the seals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atoll.deploy.evidence.chain import FILE, Broken, Record, read_chain
from atoll.deploy.evidence.sealing import CLOSED, SERVER, SITE, digests
from atoll.deploy.evidence.signing import is_signed
from atoll.errors import AtollError
from atoll.experiment.run_dir import is_complete


@dataclass(frozen=True)
class Side:
    """The record of one side, read and found to be chained."""

    where: Path
    records: Sequence[Record]

    @property
    def keys(self) -> list[str]:
        """Its public key, and those that it was renewed to."""
        return [str(r["key"]) for r in self.records if r["what"] == "opened"]

    @property
    def run(self) -> str:
        return str(self.records[0].get("run", ""))

    def of(self, what: str, site: str = "") -> list[Record]:
        return [r for r in self.records if r["what"] == what and r.get("site", "") == site]

    def messages(self, what: str, site: str = "") -> dict[str, Mapping[str, Any]]:
        return {r["message"]["id"]: r["message"] for r in self.of(what, site)}

    def has(self, count: Any, head: Any) -> bool:
        """Whether its first ``count`` records end with a hash."""
        return (
            type(count) is int
            and 0 < count <= len(self.records)
            and self.records[count - 1]["hash"] == head
        )


@dataclass
class Verdict:
    """What was found: ``problems`` that honest sides can't have, and plain figures."""

    run: str = ""
    messages: int = 0
    bytes: int = 0
    # The last round that each site has countersigned, and the sites whose own record was compared.
    countersigned: dict[str, int] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    closed: bool = False
    problems: list[str] = field(default_factory=list)


def verified(run_dir: Path, states: Sequence[Path] = ()) -> Verdict:
    """The evidence of a run, at the server and at some of its sites' state folders."""
    verdict = Verdict()
    server = _side(run_dir, verdict)
    if server is None:
        return verdict
    verdict.run = server.run
    received = [r["message"] for r in server.records if r["what"] == "received"]
    verdict.messages, verdict.bytes = len(received), sum(m["bytes"] for m in received)
    for site in _sites(server):
        rounds = [int(r["seal"]["round"]) for r in server.of("countersigned", site)]
        verdict.countersigned[site] = max(rounds, default=-1)
    verdict.problems += _problems(lambda: server_problems(server, run_dir), "the server's record")
    verdict.closed = bool(server.of("closed"))
    for state in states:
        side = _side(_folder(state, server.run), verdict)
        if side is not None:
            where = f"the record of '{state}'"
            verdict.problems += _problems(lambda s=side: site_problems(s), where)
            verdict.problems += _problems(
                lambda s=side: _compared(server, s, verdict),
                where,
            )
    return verdict


def server_problems(server: Side, run_dir: Path) -> Iterator[str]:
    """What is wrong with the coordinator's record by itself."""
    yield from _opening(server, "server")
    sealed = [r for r in server.records if r["what"] == "sealed"]
    for record in sealed:
        key = record["seal"]["key"]
        if key not in server.keys:
            yield f"record {record['n']} is sealed with a key that the record was not opened with"
        yield from _seal(server, record, SERVER, ("run", "round", "count", "head"), key)
    heads = {(r["site"], r["seal"]["round"], r["seal"]["head"]) for r in sealed}
    for site in _sites(server):
        for record in server.of("countersigned", site):
            seal = record["seal"]
            stated = {k: seal[k] for k in ("run", "round", "of", "count", "head")}
            if not is_signed(seal["key"], SITE, stated, seal["signature"]):
                yield f"record {record['n']} is not signed by the site that it names"
            if (site, seal["round"], seal["of"]) not in heads:
                yield f"record {record['n']} countersigns what was not sealed"
        yield from _twice(server, "sent", site)
        asked, got = (server.messages(what, site) for what in ("sent", "received"))
        for id in sorted(set(got) - set(asked) - {""}):
            yield f"'{site}' answered {id}, which was not asked"
    yield from _end(server, run_dir)


def _end(server: Side, run_dir: Path) -> Iterator[str]:
    closed = [r for r in server.records if r["what"] == "closed"]
    if not closed:
        if is_complete(run_dir):
            yield "the run is complete, but its record has no end: records are missing"
        return
    record, last = closed[-1], server.records[-1]
    if record is not last:
        yield f"records follow the end of the run, from record {record['n'] + 1} on"
    sealed = [r["seal"]["key"] for r in server.records if r["what"] == "sealed"]
    key = sealed[-1] if sealed else server.keys[-1]  # that of which sites have seals
    yield from _seal(server, record, CLOSED, ("run", "count", "head", "files"), key)
    if record["seal"]["count"] != record["n"]:
        yield "the signed end is not where the record ends"
    found = digests(run_dir)
    for name, digest in record["seal"]["files"].items():
        if found.get(name) != digest:
            yield f"'{name}' is not the file that was signed at the end of the run"


def site_problems(site: Side) -> Iterator[str]:
    """What is wrong with a site's record by itself."""
    yield from _opening(site, "site")
    sealed = -1
    for record in site.of("sealed"):
        seal = record["seal"]
        if seal["count"] <= sealed:
            yield f"record {record['n']} seals no more than the one before"
        sealed = seal["count"]
        stated = {k: seal[k] for k in ("run", "round", "count", "head")}
        if not is_signed(seal["key"], SERVER, stated, seal["signature"]):
            yield f"record {record['n']} is not signed by the coordinator"
    yield from _twice(site, "received")
    yield from _twice(site, "sent")
    for id in sorted(set(site.messages("sent")) - set(site.messages("received"))):
        yield f"it answered {id}, which it was not asked"


def _twice(side: Side, what: str, site: str = "") -> Iterator[str]:
    ids = [r["message"]["id"] for r in side.of(what, site)]
    for id in sorted({id for id in ids if ids.count(id) > 1} if len(ids) > len(set(ids)) else ()):
        yield f"it has message {id} on record more than once"


def _compared(server: Side, side: Side, verdict: Verdict) -> Iterator[str]:
    names = [s for s in _sites(server) if _is_of(server, side, s)]
    if side.run != server.run or not names:
        yield f"it is of run '{side.run}' and of no site that '{server.run}' has to do with"
        return
    verdict.compared += names[:1]
    yield from against_each_other(server, side, names[0])


def against_each_other(server: Side, side: Side, name: str) -> Iterator[str]:
    """Where the coordinator's record and that of the site ``name`` do not go together.

    What was sent and did not arrive is no contradiction; what arrived without being sent is.
    """
    asked, answers = server.messages("sent", name), server.messages("received", name)
    heard, said = side.messages("received"), side.messages("sent")
    for id in heard:
        if id not in asked:
            yield f"'{name}' got request {id}, which the server has not on record"
        elif asked[id] != heard[id]:
            yield f"request {id} is not the same at the server and at '{name}'"
    for id in answers:
        if id not in said:
            if id:
                yield f"the server has answer {id}, which '{name}' has not on record"
        elif answers[id]["error"] != "unreadable" and answers[id] != said[id]:
            yield f"answer {id} is not the same at the server and at '{name}'"
        elif answers[id]["sha256"] != said[id]["sha256"]:
            yield f"answer {id} arrived other than '{name}' sent it"
    for record in side.of("sealed"):
        seal = record["seal"]
        if seal["key"] not in server.keys:
            yield f"'{name}' has seals of another key than the server's"
        if not server.has(seal["count"], seal["head"]):
            yield f"the server's record lacks what it sealed for '{name}' in round {seal['round']}"
    for record in server.of("countersigned", name):
        seal = record["seal"]
        if seal["key"] not in side.keys:
            yield f"the server has countersignatures of another key than that of '{name}'"
        if not side.has(seal["count"], seal["head"]):
            yield f"the record of '{name}' lacks what it countersigned in round {seal['round']}"


def _is_of(server: Side, side: Side, site: str) -> bool:
    """Whether a side's record is that of a site: by its key, or by what it was asked."""
    keys = {r["seal"]["key"] for r in server.of("countersigned", site)}
    asked = server.messages("sent", site)
    return bool(keys & set(side.keys)) or any(id in asked for id in side.messages("received"))


def _seal(
    side: Side, record: Record, purpose: str, named: Sequence[str], key: str
) -> Iterator[str]:
    seal = record["seal"]
    if not is_signed(key, purpose, {k: seal[k] for k in named}, seal["signature"]):
        yield f"the signature of record {record['n']} is not that of the record's key"
    if not side.has(seal["count"], seal["head"]):
        yield f"record {record['n']} seals what is not there"


def _opening(side: Side, by: str) -> Iterator[str]:
    first = side.records[0]
    if first["what"] != "opened" or first.get("by") != by:
        yield "it does not begin as such a record does"


def _sites(server: Side) -> list[str]:
    return sorted({str(r["site"]) for r in server.records if r["what"] == "sent"})


def _side(folder: Path, verdict: Verdict) -> Side | None:
    try:
        records = read_chain(folder / FILE)
        if not records:
            raise Broken(f"'{folder / FILE}' is empty.")
        if not all(isinstance(record.get("what"), str) for record in records):
            raise Broken(f"'{folder / FILE}' has records that are none.")
    except Broken as problem:
        verdict.problems.append(str(problem).rstrip("."))
        return None
    return Side(folder, records)


def _folder(state: Path, run: str) -> Path:
    """A site's folder of a run: in its state folder, or the folder itself."""
    if not state.is_dir():
        raise AtollError(f"there is no folder '{state}'; name the site's state folder.")
    return state if (state / FILE).is_file() else state / run


def _problems(find: Any, where: str) -> list[str]:
    """All problems, each with the record that has it; a record without what it must have is one."""
    try:
        return [f"{where}: {problem}" for problem in find()]
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        return [f"{where}: a record lacks what it must have ({type(problem).__name__})"]
