"""Both sides' records, and how each signs what the other has seen.

Once per round, with its first request to a site, the coordinator sends a *seal*: the number and
hash of its last record, its signature, and the digests of what it has exchanged with that site
since the last seal. The site holds these against its own record, refuses where they differ, notes
the seal, and answers with a seal of its own, which the coordinator notes. So neither side can later
change, drop or add a record up to there without the other's signature telling. The request that
ends a run carries the last seals. Seals travel in messages that are sent anyway.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atoll.deploy.evidence.chain import FILE, Chain, Record
from atoll.deploy.evidence.messages import of_answer, of_request
from atoll.deploy.evidence.signing import is_signed, key_at, public_of, signature
from atoll.deploy.policy.judging import Refused
from atoll.federation.codec import Answer, Request

log = logging.getLogger("atoll")
SEAL, SERVER, SITE, CLOSED = "seal", "server's seal", "site's seal", "end of a run"
_KEY = "evidence.key"
# Files of a run directory whose digests the coordinator signs at its end.
SIGNED_FILES = ("ledger.parquet", "rounds.parquet", "history.parquet", "config.toml")


class Disagreement(Refused):
    """The two sides of a run have not seen the same messages."""


class ServerRecord:
    """The coordinator's record of one run, over all sites."""

    def __init__(self, run_dir: Path, run: str, key: Ed25519PrivateKey | None = None) -> None:
        self.run_dir, self.run = run_dir, run
        self.key = key or key_at(run_dir / _KEY)
        self.chain = Chain(run_dir / FILE)
        _open(self.chain, "server", run, self.key)
        self._sealed: dict[str, int] = {}
        # Per site, what was exchanged since it last countersigned: id, request, answer.
        self._open: dict[str, list[list[str]]] = {}
        self._asked: dict[str, Record] = {}
        for record in self.chain.records:
            self._note(record)

    def sending(self, site: str, request: Request, content: bytes) -> None:
        self._note(
            self.chain.append(
                durably=False, what="sent", site=site, message=of_request(request, content)
            )
        )

    def received(self, site: str, request: Request, answer: Answer | None, content: bytes) -> None:
        # What comes late answers an earlier request, by its own word.
        message = of_answer(request.id if answer is None else answer.id, answer, content)
        self._note(self.chain.append(what="received", site=site, message=message))

    def seal(self, site: str, round: int, last: bool = False) -> dict[str, Any] | None:
        """The seal for a site, unless it has countersigned in this round already."""
        if self._sealed.get(site, -1) >= round and not last:
            return None
        stated = {
            "run": self.run,
            "round": round,
            "count": self.chain.count,
            "head": self.chain.head,
        }
        signed = stated | {
            "key": public_of(self.key),
            "signature": signature(self.key, SERVER, stated),
        }
        self.chain.append(durably=False, what="sealed", site=site, seal=signed)
        return signed | {"exchanged": self._open.get(site, [])}

    def countersigned(
        self, site: str, sent: Mapping[str, Any], seal: Any, expected: str = ""
    ) -> bool:
        """Note a site's seal; False if it is none, and nothing is noted.

        ``expected`` is the site's key on the roster: what it signs with another one it could deny.
        Without a roster the first key that it signs with is kept to.
        """
        if not isinstance(seal, Mapping):
            return False
        stated = _stated(self.run, int(sent["round"]), str(sent["head"]), seal)
        if stated is None or not is_signed(seal["key"], SITE, stated, seal["signature"]):
            return False
        known = [
            r for r in self.chain.records if r["what"] == "countersigned" and r["site"] == site
        ]
        if (expected or (known[0]["seal"]["key"] if known else seal["key"])) != seal["key"]:
            return False
        kept = stated | {"key": seal["key"], "signature": seal["signature"]}
        self._note(self.chain.append(what="countersigned", site=site, seal=kept))
        return True

    def close(self) -> None:
        """The run is complete: sign the end of the record and the tables that belong to it."""
        if self.chain.records[-1]["what"] == "closed":
            return
        stated = {
            "run": self.run,
            "count": self.chain.count,
            "head": self.chain.head,
            "files": digests(self.run_dir),
        }
        signed = stated | {"signature": signature(self.key, CLOSED, stated)}
        self.chain.append(what="closed", seal=signed)

    def _note(self, record: Record) -> None:
        site, what = record.get("site", ""), record["what"]
        if what == "sent":
            self._asked[record["message"]["id"]] = record
        elif what == "received":
            asked = self._asked.pop(record["message"]["id"], None)
            if asked is not None:
                both = [asked["message"]["sha256"], record["message"]["sha256"]]
                self._open.setdefault(site, []).append([record["message"]["id"], *both])
        elif what == "countersigned":
            self._sealed[site] = int(record["seal"]["round"])
            # The answer that carried the seal came after what it is about.
            self._open[site] = self._open.get(site, [])[-1:]


class SiteRecord:
    """A site's record of one run."""

    def __init__(self, folder: Path, run: str, key: Ed25519PrivateKey) -> None:
        self.run, self.key = run, key
        self.chain = Chain(folder / FILE)
        _open(self.chain, "site", run, key)
        records = self.chain.records
        self._seen = {r["message"]["id"]: r["message"] for r in records if r["what"] == "received"}
        self._said = {r["message"]["id"]: r["message"] for r in records if r["what"] == "sent"}
        sealed = [r["seal"]["key"] for r in records if r["what"] == "sealed"]
        self._server = sealed[0] if sealed else ""

    def received(self, request: Request, content: bytes) -> None:
        message = of_request(request, content)
        self.chain.append(durably=False, what="received", message=message)
        self._seen[request.id] = message

    def sending(self, request: Request, answer: Answer, content: bytes) -> None:
        message = of_answer(request.id, answer, content)
        self.chain.append(what="sent", message=message)
        self._said[request.id] = message

    def countersign(self, request: Request, coordinator: bytes = b"") -> dict[str, Any]:
        """Check the seal that a request brings; the facts to answer with, empty if it has none.

        ``coordinator`` is the public key that the roster has; without one, the first that sealed
        this run is kept to.
        """
        seal = request.facts.get(SEAL)
        if seal is None:
            return {}
        if not isinstance(seal, Mapping):
            raise Disagreement("a seal that is none.")
        named = {key: seal.get(key) for key in ("run", "round", "count", "head")}
        if named["run"] != self.run or not is_signed(
            seal.get("key"), SERVER, named, seal.get("signature")
        ):
            raise Disagreement(f"the seal of run {self.run} is not signed by who sent it.")
        if (coordinator.hex() or self._server or seal["key"]) != seal["key"]:
            raise Disagreement(
                f"the seal of run {self.run} is signed with another key than before."
            )
        if self._knows_none_of(seal.get("exchanged")):
            return {}
        self._server = str(seal["key"])
        kept = named | {"key": seal["key"], "signature": seal["signature"]}
        self.chain.append(durably=False, what="sealed", seal=kept)
        stated = {
            "run": self.run,
            "round": named["round"],
            "of": named["head"],
            "count": self.chain.count,
            "head": self.chain.head,
        }
        signed = signature(self.key, SITE, stated)
        return {SEAL: stated | {"key": public_of(self.key), "signature": signed}}

    def _knows_none_of(self, exchanged: Any) -> bool:
        """Refuse where the coordinator has other messages on record than this site.

        True if it has some that this site has no record of at all: it can't vouch for these, as
        after the loss of its folder, and does not sign.
        """
        if not isinstance(exchanged, list):
            raise Disagreement("a seal without what was exchanged.")
        for entry in exchanged:
            id, *digests = entry if isinstance(entry, list) and len(entry) == 3 else ["", "", ""]
            own = [said.get(str(id), {}).get("sha256") for said in (self._seen, self._said)]
            if own == [None, None]:
                log.error(
                    "the coordinator of run %s has messages on record that this site has not; its "
                    "record is not countersigned.",
                    self.run,
                )
                return True
            if own != digests:
                raise Disagreement(
                    f"the coordinator of run {self.run} has another message {str(id)[:16]!r} on "
                    f"record than this site."
                )
        return False


def _open(chain: Chain, by: str, run: str, key: Ed25519PrivateKey) -> None:
    """Begin a record, or go on with it under a key that was renewed."""
    keys = [r["key"] for r in chain.records if r["what"] == "opened"]
    if keys[-1:] != [public_of(key)]:
        chain.append(what="opened", by=by, run=run, key=public_of(key))


def site_key(state: Path) -> Ed25519PrivateKey:
    """The key that a site signs its records with; made when it is first needed."""
    return key_at(state / _KEY)


def digests(run_dir: Path) -> dict[str, str]:
    """The SHA-256 of the files that are signed with a run's record."""
    return {
        name: hashlib.sha256((run_dir / name).read_bytes()).hexdigest()
        for name in SIGNED_FILES
        if (run_dir / name).is_file()
    }


def _stated(run: str, round: int, of: str, seal: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a site's seal must be about, with the place in its own record that it names."""
    count, head = seal.get("count"), seal.get("head")
    if type(count) is not int or not isinstance(head, str):
        return None
    if not {"key", "signature"} <= set(seal):
        return None
    return {"run": run, "round": round, "of": of, "count": count, "head": head}
