"""A server that signs its requests as it should and lies in them, between real sites."""

from dataclasses import replace

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from atoll.archive import read_tree
from atoll.deploy.durable import Durable
from atoll.deploy.remote import BelowQuorum
from atoll.deploy.summing import OtherCircle, SiteSigner, SumRepeated
from atoll.errors import AtollError
from atoll.federation.codec import Answer, decode_answer, decode_request
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


@pytest.mark.parametrize(
    "change",
    {
        "float64": lambda t: t.double(),
        "NaN": lambda t: t.double() * float("nan"),
        "int32": lambda t: t.int(),
        "bits of a NaN": lambda t: t.view(torch.float64),
        "one number more": lambda t: torch.cat([t, t[:, :1]], dim=1),
        "none": lambda t: t[:, :0],
        "two clients": lambda t: torch.cat([t, t]),
        "one more axis": lambda t: t[..., None],
    }.items(),
    ids=lambda named: named[0],
)
def test_masked_numbers_of_another_form_do_not_count(change, tmp_path, caplog):
    """The sum is that of the others, as if the site had fallen silent."""
    models = {}
    for what in ("silent", "tampered"):
        folder = tmp_path / what
        graphs = community_parties((19, 25, 14, 21))
        coordinator = deployed(folder, graphs, "fed-avg", rounds=2, privacy=SECURE)
        hostile = coordinator.plan.sites[0]
        honest = coordinator.fleet.sites[hostile]

        def fault(site, message, hostile=hostile, honest=honest, what=what):
            request = decode_request(message)
            if site != hostile or request.facts.get("step") != "train":
                return None
            if what == "silent":
                raise TimeoutError
            answer = decode_answer(honest.handle(message))
            sent = change[1](answer.tree["body/secure/masked"])
            return Answer(answer.id, {"body/secure/masked": sent}).encode()

        coordinator.fleet.fault = fault
        result = coordinator.run()
        models[what] = read_tree(result.run_dir / "parameters.safetensors")[0]
    for name, leaf in models["silent"].items():
        if name.startswith("server/"):
            assert torch.allclose(leaf, models["tampered"][name], atol=1e-8), name


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


def repeated_without(coordinator, gone, step="train", round=2):
    """Have a round begun anew without a site, once its sum is known to the server."""
    total, anew = coordinator.fed.averaging.total, []

    def twice(fed, asked, request):
        found = total(fed, asked, request)
        if (asked, fed.round) == (step, round) and not anew:
            anew.append(found)
            coordinator.fleet.down.add(gone)
            coordinator.fed.miss(gone, "the server would like to do without it")
            raise BelowQuorum("once more")
        if asked == step and fed.round == round:
            anew.append(found)
        return found

    coordinator.fed.averaging.total = twice
    return anew


def test_a_sum_is_not_made_again_without_a_site(tmp_path, caplog):
    """The difference of the two sums would be what that site sent. The round changes nothing, and
    the others go on."""
    graphs = community_parties((19, 25, 14, 21))
    coordinator = deployed(
        tmp_path, graphs, "fed-avg", privacy=SECURE, terms={"patience": 10.0, "quorum": 3}
    )
    sums = repeated_without(coordinator, coordinator.plan.sites[3])
    result = coordinator.run()
    assert len(sums) == 1
    assert result.figures["rounds"] == 4
    assert "round 2 changes nothing: a sum that is begun anew among other sites" in caplog.text
    assert sent_by(coordinator, "masked") == {0, 1, 2, 3}
    assert coordinator.fed.missing.keys() == {coordinator.plan.sites[3]}


def test_a_sum_is_made_again_among_the_same_sites(tmp_path):
    """As after a restart of the server: nothing is learnt that was not known."""
    graphs = community_parties((19, 25, 14, 21))
    coordinator = deployed(tmp_path, graphs, "fed-avg", privacy=SECURE)
    total, found = coordinator.fed.averaging.total, []

    def twice(fed, asked, request):
        found.append(total(fed, asked, request))
        if len(found) == 2:
            raise BelowQuorum("once more")
        return found[-1]

    coordinator.fed.averaging.total = twice
    coordinator.run()
    first, second = (total.mean["model"] for total in found[1:3])
    assert all(torch.allclose(first[name], second[name], atol=1e-8) for name in first)


def test_which_circle_a_sum_had_is_not_forgotten_by_a_restart(tmp_path):
    graphs = community_parties((19, 25, 14, 21))
    coordinator = deployed(tmp_path, graphs, "fed-avg", privacy=SECURE)
    identity = next(iter(coordinator.fleet.sites.values())).identity
    keys = [bytes([n]) * 32 for n in range(4)]

    def signer():
        return SiteSigner(identity, "run", 0, Durable(tmp_path / "state"))

    signer().settle(Session("run", 1, 5, 0), "train", keys)
    signer().settle(Session("run", 2, 5, 1), "train", keys[::-1])
    signer().settle(Session("run", 2, 5, 0), "probe", keys[:3])
    signer().settle(Session("run", 2, 6, 0), "train", keys[:3])
    for fewer in (keys[:3], [*keys, bytes(32)]):
        with pytest.raises(OtherCircle):
            signer().settle(Session("run", 3, 5, 7), "train", fewer)
