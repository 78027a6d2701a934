"""What FedGCN's server keeps count of, and which sums it makes and gives to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from atoll.device import of_numpy
from atoll.leaves import Ragged


class Exchange:
    """Shared nodes by number, for each client that holds them ``[a_k]``.

    A client that did not answer holds no features and has no neighbours.
    """

    def __init__(self, numbers: Mapping[int, Tensor], hops: int, floor: int) -> None:
        self._number = {client: block.cpu().numpy() for client, block in numbers.items()}
        self._hops, self._floor = hops, floor
        self._size = 1 + max((int(n.max()) for n in self._number.values() if len(n)), default=-1)
        self._held = self._none(np.int64)
        self._near = self._none(np.int64)
        self._own_weight, self._shared_weight = self._none(np.float64), self._none(np.float64)

    def _none(self, dtype: type) -> dict[int, np.ndarray]:
        return {client: np.zeros(len(n), dtype=dtype) for client, n in self._number.items()}

    def hold(self, clients: Sequence[int], has: Sequence[Tensor]) -> None:
        self._held |= _by_client(clients, has)

    def elsewhere(self) -> Ragged:
        """How many other clients have the features of each node."""
        total = self._total(self._held)
        return self._ragged({k: total[n] - self._held[k] for k, n in self._number.items()})

    def count(
        self,
        clients: Sequence[int],
        near: Sequence[Tensor],
        own: Sequence[Tensor],
        shared: Sequence[Tensor],
    ) -> None:
        self._near |= _by_client(clients, near)
        self._own_weight |= _by_client(clients, own)
        self._shared_weight |= _by_client(clients, shared)
        self._given = self._decide()
        wanted = self._total({k: given.astype(np.int64) for k, given in self._given.items()}) > 0
        self._row = np.where(wanted, np.cumsum(wanted) - 1, -1)
        self.rows = int(wanted.sum())

    def _decide(self) -> dict[int, np.ndarray]:
        foreign = self._foreign()
        return {k: (foreign[k] >= self._floor) & self._may_receive(k) for k in self._number}

    def _may_receive(self, client: int) -> np.ndarray:
        """One hop completes nodes with features; the second one the copies as well."""
        everything: np.ndarray = (self._held[client] > 0) | (self._hops == 2)
        return everything

    def _foreign(self) -> dict[int, np.ndarray]:
        """Over how many nodes of others a sum would be."""
        near, holders = self._total(self._near), self._total(self._held)
        alone = holders == 1  # then its one holder adds the node itself
        return {
            k: near[n] - self._near[k] + (alone[n] & (self._held[k] == 0)) * (self._hops == 2)
            for k, n in self._number.items()
        }

    def degrees(self) -> Ragged:
        """Each node's complete degree, its loop counted."""
        shared = np.zeros(self._size)
        for k, n in self._number.items():
            np.maximum.at(shared, n, self._shared_weight[k])
        degree = 1.0 + self._total(self._own_weight) + shared
        return self._ragged({k: degree[n] for k, n in self._number.items()})

    def row_of_table(self) -> Ragged:
        """Each node's row in the table of sums; -1 where none is made."""
        return self._ragged({k: self._row[n] for k, n in self._number.items()})

    def given(self) -> Ragged:
        return self._ragged({k: given.astype(np.int64) for k, given in self._given.items()})

    def rows_given(self, table: Tensor) -> Ragged:
        """What each client gets of the table; zeros for rows that it is not given."""
        blocks = []
        for k, n in self._number.items():
            block = table.new_zeros(len(n), table.shape[1])
            given = of_numpy(self._given[k])
            block[given] = table[of_numpy(self._row[n][self._given[k]])]
            blocks.append(block)
        return Ragged.of(blocks)

    def totals(self) -> tuple[int, int]:
        """How many rows somebody else had a part of, and how many of them were given."""
        foreign = self._foreign()
        due = sum(int(((foreign[k] > 0) & self._may_receive(k)).sum()) for k in self._number)
        return due, sum(int(given.sum()) for given in self._given.values())

    def _total(self, parts: Mapping[int, np.ndarray]) -> np.ndarray:
        total = np.zeros(self._size, dtype=next(iter(parts.values())).dtype)
        for k, n in self._number.items():
            np.add.at(total, n, parts[k])
        return total

    def _ragged(self, parts: Mapping[int, np.ndarray]) -> Ragged:
        return Ragged.of([of_numpy(parts[k]) for k in self._number])


def _by_client(clients: Sequence[int], blocks: Sequence[Tensor]) -> dict[int, np.ndarray]:
    return {client: block.cpu().numpy() for client, block in zip(clients, blocks, strict=True)}
