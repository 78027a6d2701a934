"""Everybody holds the whole graph, a task of few classes, and a new task for later."""

from dataclasses import dataclass, replace

import numpy as np

from atoll.graph import SPLITS, Graph, node_mask
from atoll.options import option
from atoll.partition.base import Partition, partitions
from atoll.partition.episodes import Episode, new_label_episodes


@partitions.register("label-domains")
@dataclass(frozen=True, kw_only=True)
class LabelDomains(Partition):
    """Each client trains on some classes and is tested on others (GraphFL, new label domains).

    Wang et al., 2020, Section 5.1.3; :func:`atoll.partition.episodes.new_label_episodes` has the
    sampling. The last ``new_classes`` classes are new. Every client holds the complete graph and
    the labels of its own nodes only: support and query nodes of ``new_classes`` of the other
    classes, ``labelled`` nodes per class altogether; ``adapted`` nodes of each new class to adapt
    with (0: as many as ``labelled``); and ``tested`` further ones to test on.

    ``rehearsal`` is for choosing settings without using the new classes: those are left out,
    and the last ``new_classes`` of the others are the new ones.

    Labels are those of the graph. Support nodes and nodes to adapt with train (their classes
    differ), query nodes validate. The experiment's split is not used.
    """

    new_classes: int = option(2, at_least=1)
    labelled: int = option(10, at_least=2, why="one supports and one queries")
    adapted: int = option(0, at_least=0, why="0 means as many as labelled")
    tested: int = option(20, at_least=1)
    rehearsal: bool = False

    def _cut(self, graph: Graph, rng: np.random.Generator) -> list[Graph]:
        if self.rehearsal:
            graph = without_last(graph, self.new_classes)
        episodes = new_label_episodes(
            graph,
            self.clients,
            self.new_classes,
            rng,
            labelled=self.labelled,
            adapted=self.adapted,
            tested=self.tested,
        )
        return [_party(graph, episode, k) for k, episode in enumerate(episodes)]


def without_last(graph: Graph, classes: int) -> Graph:
    """The same graph without the labels of its last classes."""
    left = graph.classes - classes
    known = graph.y < left
    parts = {part: getattr(graph, part) & known for part in SPLITS}
    names = graph.class_names[:left]
    y = np.where(known, graph.y, -1)
    return replace(graph, y=y, classes=left, class_names=names, **parts)


def _party(graph: Graph, episode: Episode, client: int) -> Graph:
    train = np.concatenate([episode.support, episode.adapt])
    parts = {"train": train, "val": episode.query, "test": episode.test}
    own = node_mask(np.concatenate(list(parts.values())), graph.nodes)
    return graph.relabelled(
        y=np.where(own, graph.y, -1),
        name=f"{graph.name} client {client}",
        **{part: node_mask(nodes, graph.nodes) for part, nodes in parts.items()},
    )
