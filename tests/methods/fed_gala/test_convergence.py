"""Who trains, and on which model."""

import torch

from atoll.methods.fed_gala.convergence import entered, not_begun, received_by, training


def test_a_phase_begins_with_everybody_and_no_loss():
    active, last, still = entered(not_begun(2), torch.tensor(1))
    assert active.tolist() == [True, True]
    assert last.tolist() == [float("inf")] * 2
    assert still.tolist() == [0, 0]


def test_within_a_phase_who_has_stopped_stays_stopped():
    losses, counts = torch.tensor([0.5, 0.4]), torch.tensor([0, 2])
    before = training(torch.tensor(1), torch.tensor([True, False]), losses, counts)
    active, last, still = entered(before, torch.tensor(1))
    assert active.tolist() == [True, False]
    assert last.tolist() == torch.tensor([0.5, 0.4]).tolist()
    assert still.tolist() == [0, 2]
    again, fresh, none = entered(before, torch.tensor(3))
    assert again.all()
    assert fresh.isinf().all()
    assert none.tolist() == [0, 0]


def test_a_client_that_missed_the_change_of_phase_starts_afresh_alone():
    losses, counts = torch.tensor([0.5, 0.4]), torch.tensor([1, 1])
    before = training(torch.tensor(1), torch.tensor([False, False]), losses, counts)
    before["phase"] = torch.tensor([3, 1])
    active, last, still = entered(before, torch.tensor(3))
    assert active.tolist() == [False, True]
    assert last.isinf().tolist() == [False, True]
    assert still.tolist() == [1, 0]


def test_who_has_stopped_keeps_its_own_model():
    received = {"w": torch.full((2, 1, 2), 7.0), "b": torch.full((2, 3), 7.0)}
    own = {"w": torch.zeros(2, 1, 2), "b": torch.zeros(2, 3)}
    mixed = received_by(torch.tensor([True, False]), received, own)
    assert mixed["w"].tolist() == [[[7.0, 7.0]], [[0.0, 0.0]]]
    assert mixed["b"].tolist() == [[7.0] * 3, [0.0] * 3]
    all_new = received_by(torch.tensor([True, True]), received, own)
    all_new["w"].zero_()
    assert received["w"].sum() == 28.0
