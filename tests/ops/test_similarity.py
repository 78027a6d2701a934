import pytest
import torch

from atoll.ops.similarity import cosine, mixing_weights


def test_cosine_of_three_rows():
    rows = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    half = 0.5**0.5
    expected = [[1, 0, half], [0, 1, half], [half, half, 1]]
    torch.testing.assert_close(cosine(rows), torch.tensor(expected))


def test_mixing_weights_follow_equation_3():
    weights = mixing_weights(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 3.0)
    own = 2.718281828**3 / (2.718281828**3 + 1)
    assert weights[0].tolist() == pytest.approx([own, 1 - own])
    assert mixing_weights(torch.eye(3), 0.0)[1].tolist() == pytest.approx([1 / 3] * 3)
