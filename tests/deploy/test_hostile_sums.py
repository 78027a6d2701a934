"""A server that signs its requests as it should and lies in them, between real sites."""

from dataclasses import replace

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from atoll.deploy.durable import Durable
from atoll.deploy.summing import SiteSigner, SumRepeated
from atoll.errors import AtollError
from atoll.privacy.secure.masking import AGREE, SHARES, UNMASK, keys_of
from atoll.privacy.secure.party import Keys
from atoll.privacy.secure.primitives import public_bytes
from atoll.privacy.secure.signing import Session, keys_statement, public_half
from small_federations import community_parties
from thread_fleet import deployed

SECURE = {"secure_sum": True, "threshold": 0.6}
NOTHING = "none of the 4 rounds changed anything|take part, fewer than the quorum"


def hostile(tmp_path, lie):
    """A federation whose server sends client 0 what ``lie(call)`` makes of a step, if anything."""
    graphs = community_parties((19, 25, 14, 21))
    coordinator = deployed(
        tmp_path, graphs, "fed-avg", privacy=SECURE, terms={"patience": 1.0, "quorum": 2}
    )
    fed, honest = coordinator.fed, coordinator.fed.deliver

    def deliver(call, to, each):
        false = lie(call)
        if false is None or 0 not in to:
            yield from honest(call, to, each)
            return
        assert not each
        yield from honest(replace(call, shared=false), (0,), {})
        yield from honest(call, tuple(client for client in to if client != 0), {})

    fed.deliver = deliver
    return coordinator


def sent_by(coordinator, name):
    """Who sent a leaf of this name, by the server's own ledger."""
    table = coordinator.fed.ledger.table()
    up = table.filter((table["direction"] == "up") & (table["name"] == f"secure/{name}"))
    return {int(client) for client in up["client"]}


def with_keys(shared, client, keys):
    """The round of keys with one client's exchanged."""
    place = shared["secure/clients"].tolist().index(client)
    changed = {}
    for part in ("cipher", "mask", "signer", "signature"):
        leaf = shared[f"secure/{part}"].clone()
        leaf[place] = torch.frombuffer(bytearray(getattr(keys, part)), dtype=torch.uint8)
        changed[f"secure/{part}"] = leaf
    return shared | changed


@pytest.mark.parametrize("signed", [False, True])
def test_a_server_that_poses_as_the_other_sites_reads_no_part(signed, tmp_path, caplog):
    """It shows one site keys of its own in the places of all others', so that it could take away
    every mask of that site. They are refused, also if keys that are on no roster have signed them.
    """

    def lie(call):
        if call.step != SHARES:
            return None
        shared = call.shared
        for client, theirs in keys_of(shared).items():
            if client == 0:
                continue
            cipher, mask = (public_bytes(X25519PrivateKey.generate()) for _ in range(2))
            false = replace(theirs, cipher=cipher, mask=mask)
            if signed:
                own = Ed25519PrivateKey.generate()
                session = coordinator.fed.averaging.peers.session(call.round, call.nth)
                signature = own.sign(keys_statement(session, client, cipher, mask))
                false = Keys(cipher, mask, public_half(own), signature)
            shared = with_keys(shared, client, false)
        return shared

    coordinator = hostile(tmp_path, lie)
    coordinator.run()  # the three others are enough
    assert 0 not in sent_by(coordinator, "boxes") | sent_by(coordinator, "masked")
    assert sent_by(coordinator, "masked") == {1, 2, 3}
    assert "that no party has signed for this sum" in caplog.text


def test_keys_of_an_earlier_round_are_refused(tmp_path, caplog):
    """Such as of a site that dropped out then, whose masks the server has learnt."""
    old = {}

    def lie(call):
        if call.step != SHARES:
            return None
        keys = keys_of(call.shared)
        old.setdefault(1, keys[1])
        return None if old[1] == keys[1] else with_keys(call.shared, 1, old[1])

    coordinator = hostile(tmp_path, lie)
    coordinator.run()
    table = coordinator.fed.ledger.table()
    up = table.filter((table["direction"] == "up") & (table["name"] == "secure/masked"))
    assert up.filter(up["client"] == 0)["round"].to_list() == [1]
    assert "keys of client 1 that no party has signed for this sum" in caplog.text


def test_two_lists_of_survivors_reveal_no_share(tmp_path, caplog):
    """One site is shown that client 3 dropped out, the others that it answered. Where the server
    says one thing at first and another later, or the same thing twice, nobody is taken in."""

    def lie(call):
        if call.step not in (AGREE, UNMASK):
            return None
        stay = [c for c in call.shared["secure/answered"].tolist() if c != 3]
        return dict(call.shared) | {"secure/answered": torch.tensor(stay)}

    coordinator = hostile(tmp_path, lie)
    coordinator.run()
    assert 0 in sent_by(coordinator, "masked")
    assert 0 not in sent_by(coordinator, "shares")
    assert "too few parties agree on who answered" in caplog.text


def test_signatures_that_are_not_shown_reveal_no_share(tmp_path):
    def lie(call):
        if call.step != UNMASK:
            return None
        few = {n: call.shared[f"secure/{n}"][:2] for n in ("agreeing", "signature")}
        return dict(call.shared) | {f"secure/{n}": leaf for n, leaf in few.items()}

    coordinator = hostile(tmp_path, lie)
    coordinator.run()
    assert 0 not in sent_by(coordinator, "shares")


def test_a_lie_to_all_ends_the_run_with_nothing_learnt(tmp_path):
    """The same false keys for everybody: nobody sends a masked number."""
    coordinator = hostile(tmp_path, lambda call: None)
    honest = coordinator.fed.deliver

    def deliver(call, to, each):
        if call.step == SHARES:
            cipher = call.shared["secure/cipher"].flip(0)
            call = replace(call, shared=dict(call.shared) | {"secure/cipher": cipher})
        yield from honest(call, to, each)

    coordinator.fed.deliver = deliver
    with pytest.raises(AtollError, match=NOTHING):
        coordinator.run()
    assert sent_by(coordinator, "masked") == set()


def test_a_site_signs_keys_for_each_sum_once(tmp_path):
    """Also after a restart: else keys of two sums with one number could be mixed."""
    coordinator = deployed(tmp_path, community_parties((19, 25)), "fed-avg", privacy=SECURE)
    site = next(iter(coordinator.fleet.sites.values()))

    def signer():
        return SiteSigner(site.identity, "run", 0, Durable(tmp_path / "state-of-a-run"))

    first = signer()
    first.begin(0, Session("run", 3, 2, 0))
    for again in (first, signer()):
        for order in ((3, 2, 0), (3, 1, 5), (2, 9, 9)):
            with pytest.raises(SumRepeated):
                again.begin(0, Session("run", *order))
    signer().begin(0, Session("run", 4, 1, 0))


def test_only_keys_on_the_roster_count(tmp_path):
    coordinator = deployed(tmp_path, community_parties((19, 25)), "fed-avg", privacy=SECURE)
    one, other = (site.identity for site in coordinator.fleet.sites.values())
    signer = SiteSigner(one, "run", 0, Durable(tmp_path / "state-of-a-run"))
    theirs = public_half(other.signing)
    assert signer.knows(1, theirs)
    assert signer.knows(0, public_half(one.signing))
    assert not signer.knows(1, public_half(one.signing))  # its own key is no peer's
    assert not signer.knows(1, public_half(Ed25519PrivateKey.generate()))
    one.roster = one.roster.without(other.name)
    assert not signer.knows(1, theirs)
