from dataclasses import replace

import numpy as np
import pytest

from atoll.errors import AtollError
from atoll.experiment.config import merged, resolve
from atoll.graph import make_graph
from atoll.reproduction.studies.alignment import Alignment
from atoll.reproduction.studies.who_gains import GROUPS, WhoGains, groups_of

SPARSE = {
    "data": {"name": "communities", "nodes": 120, "communities": 3, "classes": 3, "degree": 2.0},
    "partition": {"name": "public-nodes", "clients": 2},
    "method": {"name": "ppfl-deepwalk", "walks": 3, "length": 10, "dimensions": 4},
    "run": {"rounds": 3},
}


def test_groups_add_up_to_what_alignment_finds():
    """The same runs and the same folds, so the parts of all groups are the whole gain."""
    found = WhoGains().findings(resolve(SPARSE)).figures
    whole = Alignment().findings(resolve(SPARSE)).figures
    for c in ("mlp", "svc"):
        assert sum(found[f"{c}_share_{g}"] for g in GROUPS) == pytest.approx(100)
        assert all(found[f"{c}_share_{g}"] > 0 for g in GROUPS)
        assert found[f"{c}_global"] == pytest.approx(whole[f"{c}_global"])
        assert any(found[f"{c}_part_{g}"] != 0 for g in GROUPS)


def test_who_is_public_and_who_has_a_neighbour():
    graph = make_graph(np.eye(4), np.array([[0], [1]]), np.zeros(4, dtype=int), classes=2)
    graph = replace(graph, anchors=np.array([0, 2]))
    names = [GROUPS[g] for g in groups_of(graph)]
    assert names == ["public_linked", "private_linked", "public_alone", "private_alone"]


def test_only_what_all_nodes_are_scored_by_is_taken_apart():
    linked = merged(SPARSE, {"method": {"judged": "linked"}})
    with pytest.raises(AtollError, match=r"method\.judged"):
        WhoGains().findings(resolve(linked))
