import torch

from atoll.ops.masked import misfits, pack_kept, unpack_kept


def test_only_kept_entries_travel_and_come_back():
    values = torch.arange(12.0).view(2, 3, 2)
    kept = torch.tensor([[[1, 0], [0, 0], [1, 1]], [[0, 0], [0, 0], [0, 0]]]).bool()
    packed, pattern = pack_kept(values, kept)
    assert packed.values.tolist() == [0, 4, 5]
    assert packed.sizes == (3, 0)
    assert pattern.shape == (2, 1)
    assert torch.equal(unpack_kept(packed, pattern, values.shape[1:]), values * kept)


def test_a_pattern_that_does_not_fit_is_noticed():
    packed, pattern = pack_kept(torch.ones(3, 9), torch.ones(3, 9).bool())
    pattern[1, 0] = 0
    assert misfits(packed, pattern, torch.Size([9])) == [1]


def test_everything_kept_travels_as_it_is():
    values = torch.randn(2, 3, 5)
    packed, pattern = pack_kept(values, torch.ones(2, 3, 5).bool())
    assert packed.sizes == (15, 15)
    assert torch.equal(unpack_kept(packed, pattern, values.shape[1:]), values)
