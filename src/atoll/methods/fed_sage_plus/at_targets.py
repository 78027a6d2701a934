"""What a loss at target nodes looks at: the nodes next to them, and generated neighbours."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from atoll.cohort import Cohort
from atoll.cohort.targets import Targets
from atoll.methods.fed_sage_plus.made import Generated


class Children(NamedTuple):
    """The generated neighbours of some nodes: their nodes ``[R]``, features ``[R, f]``, and how
    many each client has."""

    owner: Tensor
    rows: Tensor
    sizes: tuple[int, ...]


def children(cohort: Cohort, generated: Generated, nodes: Targets) -> Children:
    """The generated neighbours of some of the nodes only."""
    asked = torch.zeros(len(cohort.batch), dtype=torch.bool).index_fill(0, nodes.rows, True)
    numbers = asked.index_select(0, generated.owner).nonzero().flatten()
    owner = generated.owner.index_select(0, numbers)
    sizes = torch.bincount(cohort.batch.index_select(0, owner), minlength=cohort.k)
    return Children(owner, generated.at(numbers), tuple(sizes.tolist()))


def with_neighbours(cohort: Cohort, targets: Targets) -> Targets:
    """The targets and all nodes next to one."""

    def find() -> Targets:
        inside = torch.zeros(len(cohort.batch), dtype=torch.bool)
        inside = inside.index_fill(0, targets.rows, True)
        one, other = cohort.edges
        near = inside.clone()
        near[one[inside[other]]] = True
        near[other[inside[one]]] = True
        rows = near.nonzero().flatten()
        return Targets(cohort.inputs, rows, cohort.batch[rows])

    return targets.cached("with their neighbours", find)
