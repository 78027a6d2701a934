"""What leaves a client behind its door: bounded, noised, counted."""

import logging
import math
from types import SimpleNamespace

import pytest
import torch

from atoll.errors import AtollError
from atoll.federation.calls import Call
from atoll.federation.validation import Batch
from atoll.leaves import Ragged
from atoll.masked import Masked
from atoll.privacy.accounting import BudgetSpent
from atoll.privacy.door import Door, guarded
from atoll.privacy.noise import KeyedCoins, SystemCoins
from atoll.privacy.protections import Privacy
from atoll.privacy.spending import Spending
from atoll.rng import CohortRng

CLIENTS = (0, 1)
COHORT = SimpleNamespace(clients=CLIENTS)


class Replying:
    """A method of which every step replies the same."""

    private = frozenset({"labels"})

    def __init__(self, weight=None, **leaves):
        self.body, self.weight = leaves, weight

    def first_state(self, cohort, rng):
        return {}

    def perform(self, call, row, cohort, state, rng):
        return state, Batch(CLIENTS, {n.replace("__", "/"): v for n, v in self.body.items()},
                            self.weight)  # fmt: skip


def left(method, shared=None, step="train", round=1, door=None, **privacy):
    door = door or guarded(method, Privacy(**privacy))
    call = Call(step, round, 0, shared or {})
    rng = CohortRng(0, CLIENTS, round, call.key)
    return door.perform(call, {}, COHORT, {}, rng)[1]


def test_an_update_is_clipped_and_not_the_model():
    """From the model (10, 10) one client goes by (3, 4), which is halved twice; one by (0, 1)."""
    sent = torch.tensor([10.0, 10.0])
    method = Replying(model__w=torch.tensor([[13.0, 14.0], [10.0, 11.0]]))
    batch = left(method, {"model/w": sent}, clip=2.5)
    expected = torch.tensor([[11.5, 12.0], [10.0, 11.0]])
    assert torch.allclose(batch.body["model/w"], expected)


def test_a_kind_is_clipped_as_one_vector():
    method = Replying(model__w=torch.tensor([[3.0], [0.0]]), model__b=torch.tensor([[4.0], [1.0]]))
    body = left(method, clip=1.0).body
    assert torch.allclose(body["model/w"], torch.tensor([[0.6], [0.0]]))
    assert torch.allclose(body["model/b"], torch.tensor([[0.8], [1.0]]))


@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_a_number_that_is_none_does_not_lift_the_bound(spoilt, noise):
    """A server puts it where a client's data never meets it, as in the row of a word nobody has."""
    sent = torch.tensor([spoilt, 1.0])
    method = Replying(model__w=torch.tensor([[spoilt, 1000.0], [spoilt, 1.5]]))
    batch = left(method, {"model/w": sent}, clip=2.5, noise=noise)
    assert torch.allclose(batch.body["model/w"][:, 1], torch.ones(2))
    method = Replying(embedding__h=torch.tensor([[spoilt, 1000.0], [0.0, 1.5]]))
    body = left(method, clip=2.5, noise=noise).body["embedding/h"]
    assert torch.allclose(body, torch.tensor([[0.0, 0.0], [0.0, 1.5]]))


def test_embeddings_are_clipped_as_they_are_per_client():
    rows = Ragged(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.5, 0.0]]), (2, 1))
    body = left(Replying(embedding__anchors=rows), clip=1.0).body
    expected = torch.tensor([[0.6, 0.0], [0.0, 0.8], [0.5, 0.0]])
    assert torch.allclose(body["embedding/anchors"].values, expected)
    assert body["embedding/anchors"].sizes == (2, 1)


def test_noise_has_the_deviation_that_is_said():
    method = Replying(model__w=torch.zeros(2, 20_000))
    noised = left(method, noise=3.0, clip=0.5).body["model/w"]
    assert float(noised.std()) == pytest.approx(1.5, rel=0.02)
    assert not torch.equal(noised[0], noised[1])


def test_every_client_counts_the_same_under_clipping():
    method = Replying(weight=torch.tensor([7.0, 0.0]).double(), model__w=torch.zeros(2, 1))
    assert left(method, clip=1.0).weight.tolist() == [1.0, 0.0]


def test_scores_are_left_as_they_are_and_cost_nothing():
    method = Replying(metric__accuracy=torch.tensor([[0.5], [0.7]]))
    door = guarded(method, Privacy(noise=1.0, clip=0.1))
    assert torch.equal(
        left(method, door=door).body["metric/accuracy"], method.body["metric__accuracy"]
    )
    assert door.spending.counts.total() == 0


def test_each_kind_is_a_release_and_the_budget_ends_them():
    method = Replying(model__w=torch.zeros(2, 1), moments__of=torch.zeros(2, 1))
    privacy = Privacy(noise=10.0, clip=1.0, epsilon=1.0)
    door = guarded(method, privacy)
    rounds = privacy.affordable // 2
    assert rounds > 0
    for r in range(rounds):
        left(method, door=door, round=r + 1)
    with pytest.raises(BudgetSpent, match=r"epsilon is .*, above privacy\.epsilon = 1"):
        left(method, door=door, round=rounds + 1)
    assert door.spending.counts[0] == 2 * rounds


def test_a_site_that_restarts_goes_on_with_its_count(tmp_path):
    method = Replying(model__w=torch.zeros(2, 1))
    privacy = Privacy(noise=10.0, clip=1.0, epsilon=0.5)
    assert privacy.affordable == 1
    file = tmp_path / "spent.json"
    left(method, door=Door(method, privacy, Spending(privacy, file), SystemCoins()))
    with pytest.raises(BudgetSpent):
        left(method, door=Door(method, privacy, Spending(privacy, file), SystemCoins()))
    file.write_text("[]")
    with pytest.raises(AtollError, match="what the site has spent is not known"):
        Spending(privacy, file)


def test_noise_that_exceeds_the_signal_is_said_once(caplog):
    method = Replying(model__w=torch.ones(2, 100))
    door = guarded(method, Privacy(noise=1.0, clip=1.0))
    with caplog.at_level(logging.WARNING, "atoll"):
        for round in (1, 2):
            left(method, door=door, round=round)
    [said] = [record.message for record in caplog.records]
    assert "noise on 'model' of step 'train' has norm 10, more than what it hides (1" in said


def test_little_noise_is_not_warned_of(caplog):
    with caplog.at_level(logging.WARNING, "atoll"):
        left(Replying(model__w=torch.ones(2, 100)), noise=0.01, clip=1.0)
    assert not caplog.records


@pytest.mark.parametrize(
    ("leaf", "said"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), "whole numbers to which no noise can be added"),
        (Masked(torch.ones(2, 3), torch.ones(2, 3).bool()), "method.masks=false"),
    ],
)
def test_what_noise_can_not_hide_does_not_leave(leaf, said):
    with pytest.raises(AtollError, match=said):
        left(Replying(held__x=leaf), clip=1.0)


def test_without_protections_there_is_no_door():
    method = Replying(model__w=torch.zeros(2, 1))
    assert guarded(method, Privacy()) is method


def test_a_cohort_is_noised_as_its_clients_one_by_one():
    whole = left(Replying(model__w=torch.ones(2, 3)), noise=1.0, clip=1.0).body["model/w"]
    coins = KeyedCoins()
    for i, client in enumerate(CLIENTS):
        rng = CohortRng(0, (client,), 1, "train#0")
        alone = 1 / math.sqrt(3) + coins.normal(rng, 0, "model/w", 3)
        assert whole[i].tolist() == pytest.approx(alone.tolist(), abs=1e-6)
