"""What clients keep to themselves, for all of them in one process."""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections.abc import Callable

import numpy as np
from torch import Tensor

from atoll.device import of_numpy
from atoll.errors import AtollError
from atoll.tree import Leaf, Tree, put, stack, take

# Names the clients, by position, whose rows a tree of states has, where it has not everybody's.
HOLDERS = "holders"
Join = Callable[[tuple[int, ...]], Tree]
# Whether a leaf of that name is asked for.
Wanted = Callable[[str], bool]


class States:
    """The states of K clients as one tree with a leading client axis."""

    def __init__(self, k: int, everybody: Tree) -> None:
        self.k = k
        self.tree = everybody
        self._everybody = tuple(range(k))

    def take(self, part: tuple[int, ...]) -> Tree:
        return dict(self.tree) if part == self._everybody else take(self.tree, part)

    def put(self, part: tuple[int, ...], state: Tree) -> None:
        self.tree = put(self.tree, part, state, self.k)

    def whole(self) -> Tree:
        """Everybody's state."""
        return self.tree

    def saved(self, wanted: Wanted = lambda name: True) -> Tree:
        """All that a checkpoint needs, or the part of it that is wanted."""
        return {name: leaf for name, leaf in self.tree.items() if wanted(name)}

    def restore(self, saved: Tree) -> None:
        self.tree = dict(saved)


class Shelf(States):
    """The same of so many clients that not all states are to be in memory.

    A client's state is made when a step first needs it, and kept when a step has changed it: then
    in its row of a memory-mapped file, which takes no space for rows that nobody has written.
    """

    def __init__(self, k: int, join: Join, chunk: int) -> None:
        super().__init__(k, {})
        self._join, self._chunk = join, chunk
        self._held = np.zeros(k, dtype=bool)
        self._lent: tuple[Tree, dict[str, int]] = {}, {}

    def take(self, part: tuple[int, ...]) -> Tree:
        where = np.array(part, dtype=np.int64)
        is_held = self._held[where]
        new, known = where[~is_held].tolist(), where[is_held].tolist()
        state = self._join(tuple(new)) if new else {}
        if known:
            held = take(self.tree, known)
            state = _merged(state, held, is_held) if state else held
        self._lent = state, {name: _version(leaf) for name, leaf in state.items()}
        return dict(state)

    def put(self, part: tuple[int, ...], state: Tree) -> None:
        lent, versions = self._lent
        if set(state) == set(lent) and all(
            leaf is lent[name] and _version(leaf) == versions[name] for name, leaf in state.items()
        ):
            return  # nothing has changed: a first state need not be kept
        if not self.tree:
            self.tree = {name: _file(name, leaf, self.k) for name, leaf in state.items()}
        self.tree = put(self.tree, part, state, self.k + 1)  # always in place
        self._held[list(part)] = True

    def whole(self) -> Tree:
        parts = [
            tuple(range(i, min(i + self._chunk, self.k))) for i in range(0, self.k, self._chunk)
        ]
        return stack([self.take(part) for part in parts])

    def saved(self, wanted: Wanted = lambda name: True) -> Tree:
        holders = np.flatnonzero(self._held)
        rows = take(super().saved(wanted), holders.tolist()) if len(holders) else {}
        return {**rows, HOLDERS: of_numpy(holders)}

    def restore(self, saved: Tree) -> None:
        holders = saved[HOLDERS]
        assert isinstance(holders, Tensor)
        self._held[:] = False
        rows = {name: leaf for name, leaf in saved.items() if name != HOLDERS}
        if len(holders):
            self._lent = {}, {}
            self.put(tuple(holders.tolist()), rows)


def states_of(k: int, join: Join, at_once: int) -> States:
    """The first states of K clients: all of them at hand, unless they are more than ``at_once``."""
    return States(k, join(tuple(range(k)))) if k <= at_once else Shelf(k, join, at_once)


def _merged(first: Tree, held: Tree, is_held: np.ndarray) -> Tree:
    """Rows of clients that are new and of others, in the order of all."""
    new, known = (of_numpy(np.flatnonzero(which)) for which in (~is_held, is_held))
    merged: Tree = {}
    for name, leaf in first.items():
        other = held[name]
        assert isinstance(leaf, Tensor), f"{name} can't be part of a state"
        assert isinstance(other, Tensor), f"{name} was a plain tensor before"
        rows = leaf.new_empty((len(is_held), *leaf.shape[1:]))
        rows[new], rows[known] = leaf, other
        merged[name] = rows
    return merged


def _version(leaf: Leaf) -> int:
    values = leaf if isinstance(leaf, Tensor) else leaf.numbers()[0]
    return values._version


def _file(name: str, leaf: Leaf, k: int) -> Tensor:
    """Room for a leaf of K clients in a file that ends with this process."""
    if not isinstance(leaf, Tensor):
        raise AtollError(
            f"'{name}' differs in size from client to client, and so many clients' states are kept "
            f"in files of equal rows; use fewer clients."
        )
    shape, dtype = (k, *leaf.shape[1:]), leaf[:0].detach().cpu().numpy().dtype
    needed = int(np.prod(shape)) * dtype.itemsize
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if needed > free:
        raise AtollError(
            f"the states of {k:,} clients may take {needed / 1e9:.1f} GB for '{name}', and "
            f"{tempfile.gettempdir()} has {free / 1e9:.1f} GB left; set TMPDIR to a larger disk."
        )
    with tempfile.TemporaryFile() as file:
        file.truncate(max(needed, 1))
        content = mmap.mmap(file.fileno(), max(needed, 1))
    if hasattr(content, "madvise"):
        # Clients are drawn at random: what lies around a row need not come to memory with it.
        content.madvise(mmap.MADV_RANDOM)
    return of_numpy(np.ndarray(shape, dtype, content))
