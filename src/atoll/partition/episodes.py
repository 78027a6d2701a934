"""Tasks with their own label domains, sampled per client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atoll.errors import AtollError
from atoll.graph import Graph


@dataclass(frozen=True, eq=False)
class Episode:
    """One client's task: learn some classes, then adapt to classes nobody has trained on.

    ``classes`` and ``new_classes`` are labels of the graph; ``support`` and ``query`` are nodes of
    the former, ``adapt`` and ``test`` of the latter. A classifier of this task tells
    ``len(classes)`` classes apart: see :meth:`task_label`.
    """

    classes: np.ndarray
    support: np.ndarray
    query: np.ndarray
    new_classes: np.ndarray
    adapt: np.ndarray
    test: np.ndarray

    def task_label(self, y: np.ndarray) -> np.ndarray:
        """Labels of the graph as the task's: the position in ``classes`` or ``new_classes``."""
        position = np.full(int(max(self.classes.max(), self.new_classes.max())) + 1, -1)
        position[self.classes] = np.arange(len(self.classes))
        position[self.new_classes] = np.arange(len(self.new_classes))
        task: np.ndarray = position[y]
        return task


def new_label_episodes(
    graph: Graph,
    clients: int,
    new_classes: int,
    rng: np.random.Generator,
    *,
    labelled: int = 10,
    adapted: int = 0,
    tested: int = 20,
) -> list[Episode]:
    """An episode for each client, as in GraphFL's experiments with new label domains.

    Wang et al., 2020, Section 5.1.3. Of K classes the last ``K_0 = new_classes`` are set aside (2
    for Cora and CiteSeer, 3 for Coauthor CS and Amazon2M). Each client draws ``K_0`` of the first
    ``K - K_0`` classes and ``labelled`` nodes of each, halved into support and query nodes (an odd
    one supports); then ``adapted`` nodes of each new class to adapt with, and ``tested`` other
    nodes of it to test on. Clients draw independently, so their nodes may coincide.

    Ambiguity: new classes are adapted to with "the same number of nodes as the support nodes", in
    training there are 10 nodes per class, and Table 2 varies the number of labelled nodes as 2, 6,
    10. With ``adapted = 0`` it is as many for each class as in training, namely ``labelled``, and
    both vary together; otherwise the number in training can stay at 10.
    """
    adapted = adapted or labelled
    old = graph.classes - new_classes
    if not 1 <= new_classes <= old:
        raise AtollError(
            f"{graph.name} has {graph.classes} classes, so {new_classes} can't be new while as "
            f"many are drawn from the others; choose 1 to {graph.classes // 2} new classes."
        )
    members = [np.flatnonzero(graph.y == c) for c in range(graph.classes)]
    for c, nodes in enumerate(members):
        needed = labelled if c < old else adapted + tested
        if len(nodes) < needed:
            raise AtollError(
                f"class {c} of {graph.name} has {len(nodes)} nodes and episodes need {needed}; "
                f"lower their number of nodes per class."
            )
    new = np.arange(old, graph.classes)
    sizes = (labelled, adapted, tested)
    return [_episode(members, old, new, sizes, rng) for _ in range(clients)]


def _episode(
    members: list[np.ndarray],
    old: int,
    new: np.ndarray,
    sizes: tuple[int, int, int],
    rng: np.random.Generator,
) -> Episode:
    labelled, adapted, tested = sizes
    classes = np.sort(rng.choice(old, size=len(new), replace=False))
    support, query = _drawn(members, classes, (labelled + 1) // 2, labelled // 2, rng)
    adapt, test = _drawn(members, new, adapted, tested, rng)
    return Episode(classes, support, query, new, adapt, test)


def _drawn(
    members: list[np.ndarray],
    classes: np.ndarray,
    first: int,
    second: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Two disjoint sets with so many nodes of each class, by class."""
    drawn = [rng.choice(members[c], size=first + second, replace=False) for c in classes]
    return (
        np.concatenate([nodes[:first] for nodes in drawn]),
        np.concatenate([nodes[first:] for nodes in drawn]),
    )
