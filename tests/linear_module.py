"""A torch module of one's own, for tests of what is done with such a one."""

from torch import nn


class Linear(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, classes)

    def forward(self, x, edge_index):
        return self.layer(x)


def build(features: int, classes: int) -> nn.Module:
    return Linear(features, classes)
