"""Envelopes: what the key's owner has not signed for this purpose stays shut."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atoll.deploy.envelope import Forged, Label, opened, sealed
from atoll.deploy.keyring import public
from atoll.deploy.roster import Roster, SiteKeys, read_roster

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PUBLIC = bytes.fromhex(public(KEY))
LABEL = Label("fed-avg-1", "north", 3, "0123456789abcdef")


def test_what_was_sealed_is_opened_with_its_label():
    assert opened(PUBLIC, "request", sealed(KEY, "request", LABEL, b"words")) == (LABEL, b"words")
    assert opened(PUBLIC, "answer", sealed(KEY, "answer", Label("", "n", 0, ""), b""))[1] == b""


def test_no_other_key_and_no_other_purpose_opens_it():
    with pytest.raises(Forged, match="not that of the expected party"):
        opened(PUBLIC, "request", sealed(OTHER, "request", LABEL, b"words"))
    with pytest.raises(Forged, match="not that of the expected party"):
        opened(PUBLIC, "request", sealed(KEY, "answer", LABEL, b"words"))


def test_every_single_byte_counts():
    whole = sealed(KEY, "request", LABEL, b"words")
    for place in range(len(whole)):
        with pytest.raises(Forged):
            opened(
                PUBLIC, "request", whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
            )
        with pytest.raises(Forged):
            opened(PUBLIC, "request", whole[:place])
    with pytest.raises(Forged):
        opened(PUBLIC, "request", whole + b"more")


@pytest.mark.parametrize("junk", [b"", b"ATL\x01", b"ATL\x01" + bytes(200), None, "text", 7])
def test_junk_is_refused(junk):
    with pytest.raises(Forged):
        opened(PUBLIC, "request", junk)


def test_a_roster_counts_only_with_the_authority_s_signature():
    roster = Roster(1, "aa").with_site("north", SiteKeys("bb", "cc"))
    content = roster.signed(KEY)
    assert read_roster(content, PUBLIC) == roster
    for forged in (roster.signed(OTHER), content.replace(b'"bb"', b'"dd"'), b"", b"\n", b"zz\n{}"):
        with pytest.raises(Forged):
            read_roster(forged, PUBLIC)


def test_a_roster_keeps_the_order_of_sites_and_what_was_revoked():
    roster = Roster(1, "aa")
    for name in "abc":
        roster = roster.with_site(name, SiteKeys(name * 2, name))
    renewed = roster.with_site("a", SiteKeys("new", "n"))
    assert list(renewed.sites) == ["a", "b", "c"]
    assert renewed.revoked == {"aa": "a"}
    assert list(renewed.without("b").sites) == ["a", "c"]
    assert renewed.without("b").serial == renewed.serial + 1
