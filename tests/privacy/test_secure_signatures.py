"""A server that replaces keys, repeats old ones or shows lists that differ, party by party."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from secure_parties import NOW, new_party, signed_keys

from atoll.privacy.secure.primitives import Broken, public_bytes
from atoll.privacy.secure.signing import Session, Simulated, list_statement

UNSIGNED = "keys of client 1 that no party has signed"
TURNED = bytes(63) + b"\1"


def circle(clients=5, session=NOW):
    parties = [new_party(c, session) for c in range(clients)]
    return parties, {c: party.keys() for c, party in enumerate(parties)}


def masked(clients=5):
    """Parties that have all sent their masked numbers."""
    parties, keys = circle(clients)
    boxes = [party.shares(keys) for party in parties]
    for c, party in enumerate(parties):
        inbox = {o: boxes[o][c] for o in range(clients) if o != c}
        party.masked(np.zeros(3, dtype=np.uint64), inbox)
    return parties


def of_the_server():
    return (public_bytes(X25519PrivateKey.generate()) for _ in range(2))


@pytest.mark.parametrize("by", ["nobody", "the server", "another party"])
def test_a_server_that_replaces_keys_gets_no_shares(by):
    """It poses as client 1 to client 0, with keys whose secrets it has."""
    parties, keys = circle()
    if by == "nobody":
        cipher, mask = of_the_server()
        false = replace(keys[1], cipher=cipher, mask=mask)
    else:
        own = Ed25519PrivateKey.generate() if by == "the server" else Simulated().key(4)
        false = signed_keys(1, *of_the_server(), by=own)
    with pytest.raises(Broken, match=UNSIGNED):
        parties[0].shares({c: k for c, k in keys.items() if c != 4} | {1: false})


@pytest.mark.parametrize("part", ["cipher", "mask", "signature"])
def test_no_part_of_signed_keys_can_be_exchanged(part):
    parties, keys = circle()
    instead = getattr(circle()[1][1], part)
    with pytest.raises(Broken, match=UNSIGNED):
        parties[0].shares(keys | {1: replace(keys[1], **{part: instead})})


@pytest.mark.parametrize(
    "session",
    [
        NOW._replace(round=1),
        NOW._replace(attempt=0),
        NOW._replace(number=1),
        NOW._replace(run="another"),
        Session("run\0", *NOW.order),
    ],
)
def test_keys_of_another_sum_are_refused(session):
    """An old round's key may be known to the server, from a sum in which its owner dropped out."""
    parties, keys = circle()
    old = new_party(1, session).keys()
    with pytest.raises(Broken, match=UNSIGNED):
        parties[0].shares(keys | {1: old})


def test_a_partys_keys_do_not_count_as_another_clients():
    parties, keys = circle()
    with pytest.raises(Broken, match="keys that are not those of so many"):
        parties[0].shares(keys | {1: keys[2]})
    with pytest.raises(Broken, match=UNSIGNED):
        parties[3].shares({0: keys[0], 1: keys[2], 3: keys[3], 4: keys[4]})


def test_lists_that_differ_reveal_nothing():
    """Half of the parties are shown that client 4 answered, the others that it dropped out, so that
    the server could put together both of its seeds."""
    parties = masked()
    shown = [range(5), range(5), range(4), range(4), range(5)]
    signed = {c: parties[c].agreed(shown[c]) for c in range(5)}
    for c in range(5):
        with pytest.raises(Broken, match="too few parties agree"):
            parties[c].revealed(shown[c], signed)


def test_a_party_reveals_for_the_list_that_it_signed_alone():
    parties = masked()
    signed = {c: parties[c].agreed(range(5)) for c in range(5)}
    with pytest.raises(Broken, match="another list"):
        parties[0].revealed(range(4), signed)


def test_a_list_that_leaves_a_party_out_is_not_signed_by_it():
    with pytest.raises(Broken, match="leaves this party out"):
        masked()[4].agreed(range(4))


@pytest.mark.parametrize("what", ["turned", "of another list", "by another", "missing"])
def test_signatures_count_by_who_made_them_over_what(what):
    """Four of five must agree; three and a false one are too few."""
    parties = masked()
    signed = {c: parties[c].agreed(range(5)) for c in range(4)}
    context = parties[3]._context
    false = {
        "turned": TURNED,
        "of another list": Simulated().key(3).sign(list_statement(context, range(5), range(4))),
        "by another": signed[2],
    }
    signed = {c: s for c, s in signed.items() if c < 3} | (
        {3: false[what]} if what in false else {}
    )
    with pytest.raises(Broken, match="too few parties agree"):
        parties[0].revealed(range(5), signed)


def test_a_false_signature_beside_enough_true_ones_stops_nobody():
    parties = masked()
    signed = {c: parties[c].agreed(range(5)) for c in range(4)} | {4: TURNED, 7: TURNED}
    assert len(parties[0].revealed(range(5), signed)) == 5


def test_signatures_of_another_sum_over_the_same_list_do_not_count():
    parties, others = masked(), masked()
    signed = {c: others[c].agreed(range(5)) for c in range(5)}
    parties[0].agreed(range(5))
    with pytest.raises(Broken, match="too few parties agree"):
        parties[0].revealed(range(5), signed)
