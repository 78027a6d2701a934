"""One secure sum, party by party: masks cancel, dropouts are made up for, tricks are refused."""

import numpy as np
import pytest
from secure_parties import SHARE, new_party, signed_keys

from atoll.privacy.secure.fixed_point import decoded, encoded, fits
from atoll.privacy.secure.party import threshold_of, unmasked
from atoll.privacy.secure.primitives import SEED, Broken, seed_of


def numbers(client, size=6):
    return np.arange(size, dtype=np.uint64) * np.uint64(client + 1)


class Sum:
    """A server that relays faithfully, and what it got to see."""

    def __init__(self, clients=5):
        self.parties = {c: new_party(c) for c in range(clients)}
        self.keys = {c: party.keys() for c, party in self.parties.items()}
        self.boxes = {c: party.shares(self.keys) for c, party in self.parties.items()}
        self.threshold = threshold_of(SHARE, clients)

    def inbox(self, client):
        return {c: sent[client] for c, sent in self.boxes.items() if c != client}

    def masked(self, clients):
        return {c: self.parties[c].masked(numbers(c), self.inbox(c)) for c in clients}

    def revealed(self, answered, revealing):
        signed = {c: self.parties[c].agreed(answered) for c in revealing}
        return {c: self.parties[c].revealed(answered, signed) for c in revealing}

    def seeds(self, answered, revealing):
        shares = self.revealed(answered, revealing)
        return {
            other: seed_of({c: found[other] for c, found in shares.items()}, self.threshold)
            for other in self.parties
        }

    def total(self, answered, revealing=None):
        masked = self.masked(answered)
        total = np.sum(list(masked.values()), axis=0, dtype=np.uint64)
        seeds = self.seeds(answered, answered if revealing is None else revealing)
        return unmasked(total, self.keys, list(self.parties), answered, seeds)


def test_the_sum_of_all_is_exact():
    assert np.array_equal(Sum().total([0, 1, 2, 3, 4]), sum(numbers(c) for c in range(5)))


@pytest.mark.parametrize("silent", [(4,), (0,)])
def test_who_drops_out_after_the_shares_is_made_up_for(silent):
    answered = [c for c in range(5) if c not in silent]
    assert np.array_equal(Sum().total(answered), sum(numbers(c) for c in answered))


def test_who_drops_out_at_the_last_turn_is_not_needed():
    assert np.array_equal(Sum().total([0, 1, 2, 3, 4], [0, 2, 3, 4]), sum(map(numbers, range(5))))


def test_fewer_than_the_threshold_do_not_make_a_seed_out():
    secure = Sum()
    secure.masked([0, 1, 2, 3, 4])
    found = secure.revealed([0, 1, 2, 3, 4], [1, 2, 3, 4])
    shares = {c: found[c][0] for c in (1, 2, 3, 4)}
    whole = seed_of(shares, 4)
    assert whole == secure.parties[0]._own_seed
    assert seed_of({c: shares[c] for c in (1, 2, 3)}, 3) != whole


def test_masked_numbers_tell_nothing_alone():
    """The same numbers twice: other bytes each time, half of their bits set."""
    first, again = (Sum().masked(range(5))[0] for _ in range(2))
    assert not np.array_equal(first, again)
    big = Sum()
    row = big.parties[0].masked(np.zeros(4096, dtype=np.uint64), big.inbox(0))
    assert abs(np.unpackbits(row.view(np.uint8)).mean() - 0.5) < 0.01


def test_a_party_takes_each_turn_once_and_in_order():
    secure = Sum()
    with pytest.raises(Broken, match="turn 1 after turn 2"):
        secure.parties[0].keys()
    secure.masked(range(5))
    with pytest.raises(Broken, match="turn 3 after turn 3"):
        secure.masked([0])
    with pytest.raises(Broken, match="turn 5 after turn 3"):
        secure.parties[0].revealed([0, 1, 2, 3], {})
    secure.revealed([0, 1, 2, 3], [0, 1, 2, 3])
    with pytest.raises(Broken, match="turn 4 after turn 5"):
        secure.parties[0].agreed([0, 1, 2, 3])
    with pytest.raises(Broken, match="turn 5 after turn 5"):
        secure.parties[0].revealed([0, 1, 2, 3], {})


def test_a_party_reveals_one_share_of_each_and_never_below_the_threshold():
    secure = Sum()
    secure.masked(range(5))
    with pytest.raises(Broken, match="too few"):
        secure.parties[4].agreed([0, 1, 2])
    revealed = secure.revealed([0, 1, 2, 3], [0, 1, 2, 3])[1]
    assert set(revealed) == set(range(5))
    assert {len(share) for share in revealed.values()} == {SEED}


def test_keys_in_place_of_a_partys_own_are_refused():
    parties = [new_party(c) for c in range(3)]
    keys = {c: party.keys() for c, party in enumerate(parties)}
    with pytest.raises(Broken, match="keys that are not"):
        parties[0].shares(keys | {0: keys[1]})
    with pytest.raises(Broken, match="keys that are not"):
        parties[1].shares(keys | {2: keys[0]})  # one party twice


def test_a_key_that_is_no_point_is_refused():
    """A hostile party has signed it, so it is one's own library that must look."""
    parties = [new_party(c) for c in range(3)]
    keys = {c: party.keys() for c, party in enumerate(parties)}
    with pytest.raises(Broken, match="public key that is none"):
        parties[0].shares(keys | {1: signed_keys(1, bytes(32), bytes([1]) + bytes(31))})


def test_a_share_that_was_altered_is_refused():
    secure = Sum()
    box = secure.boxes[1][0]
    inbox = secure.inbox(0) | {1: box[:-1] + bytes([box[-1] ^ 1])}
    with pytest.raises(Broken, match="altered"):
        secure.parties[0].masked(numbers(0), inbox)


def test_a_share_meant_for_another_is_refused():
    secure = Sum()
    with pytest.raises(Broken, match="altered"):
        secure.parties[0].masked(numbers(0), secure.inbox(0) | {1: secure.boxes[1][2]})


def test_too_small_a_circle_is_refused():
    secure = Sum()
    few = {c: box for c, box in secure.inbox(0).items() if c < 3}
    with pytest.raises(Broken, match="too few"):
        secure.parties[0].masked(numbers(0), few)
    alone = new_party(0)
    with pytest.raises(Broken, match="too few"):
        alone.shares({0: alone.keys()})


def test_a_wrong_key_of_a_silent_party_is_noticed():
    secure = Sum()
    masked = secure.masked([0, 1, 2, 3])
    total = np.sum(list(masked.values()), axis=0, dtype=np.uint64)
    seeds = secure.seeds([0, 1, 2, 3], [0, 1, 2, 3]) | {4: bytes(SEED)}
    with pytest.raises(Broken, match="do not make out a key"):
        unmasked(total, secure.keys, range(5), [0, 1, 2, 3], seeds)


@pytest.mark.parametrize(("n", "t"), [(10, 7), (3, 3), (2, 2), (100, 67)])
def test_thresholds(n, t):
    assert threshold_of(0.67, n) == t


def test_fixed_point_is_within_half_a_step():
    import torch

    values = torch.tensor([0.1, -3.25, 1e-9, 1234.5678]).double()
    back = decoded(encoded(values))
    assert float((back - values).abs().max()) <= 2.0**-33
    assert decoded(encoded(values) + encoded(-2 * values)).tolist() == pytest.approx(
        (-values).tolist(), abs=2.0**-31
    )
    rows = torch.tensor([[1.0, 2.0], [2.0**31 / 4, 0.0], [float("nan"), 0.0]])
    assert fits(rows, 4).tolist() == [True, False, False]
