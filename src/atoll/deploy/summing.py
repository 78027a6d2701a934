"""Whose signatures count in secure sums between sites: those of the keys on the roster."""

from __future__ import annotations

from collections.abc import Collection

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atoll.deploy.durable import MOST_ROUNDS_BACK, Durable
from atoll.deploy.identity import Identity
from atoll.deploy.keyring import public
from atoll.deploy.remote import Remote
from atoll.deploy.roster import Roster
from atoll.privacy.secure.signing import Peers, Session, Signers

_LAST, _CIRCLES = "sums", "circles"


class SumRepeated(RuntimeError):
    """Keys for a sum that is not after the last one: they could be mixed up with the old ones."""


class OtherCircle(RuntimeError):
    """A sum begun anew among other sites than before: the difference of the two would be the part
    of whoever is in one and not in the other."""


class SiteSigner(Signers):
    """A site's own key, and the peers that its roster has.

    Which client another site is, only the server knows; so what a site asks of a peer's key is that
    it is on the roster, and the party that no key comes twice.
    """

    def __init__(self, identity: Identity, run: str, client: int, durable: Durable) -> None:
        self.identity = identity
        self.run = run
        self.client = client
        self._durable = durable

    def key(self, client: int) -> Ed25519PrivateKey:
        return self.identity.signing

    def knows(self, client: int, public_key: bytes) -> bool:
        shown = public_key.hex()
        if client == self.client:
            return shown == public(self.identity.signing)
        others = (k.signs for n, k in self.identity.roster.sites.items() if n != self.identity.name)
        return shown in others

    def begin(self, client: int, session: Session) -> None:
        """Kept on disk before anything is signed, so that a restart forgets nothing."""
        last = (self._durable.facts(_LAST) or {}).get("order", [-1])
        if list(session.order) <= last:
            raise SumRepeated(f"{session.order}, where {tuple(last)} was the last")
        self._durable.keep_facts(_LAST, {"order": list(session.order)})

    def settle(self, session: Session, step: str, circle: Collection[bytes]) -> None:
        """One circle per round and step, whatever the attempt and the number of the sum."""
        kept = self._durable.facts(_CIRCLES) or {}
        mine, here = sorted(key.hex() for key in circle), f"{session.round} {step}"
        if kept.get(here, mine) != mine:
            raise OtherCircle(f"'{step}' of round {session.round} was summed among other sites")
        oldest = session.round - MOST_ROUNDS_BACK
        recent = {at: keys for at, keys in kept.items() if int(at.split()[0]) >= oldest}
        self._durable.keep_facts(_CIRCLES, recent | {here: mine})


class RosterPeers(Peers):
    """The sites of a run as its coordinator knows them, in the attempt that is under way."""

    def __init__(self, roster: Roster, fed: Remote) -> None:
        self.roster = roster
        self.fed = fed

    def session(self, round: int, number: int) -> Session:
        return Session(self.fed.run, self.fed.attempt, round, number)

    def knows(self, client: int, public_key: bytes) -> bool:
        keys = self.roster.sites.get(self.fed.sites[client])
        return keys is not None and keys.signs == public_key.hex()
