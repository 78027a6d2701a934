import pytest

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.reproduction.studies.base import studies
from atoll.reproduction.studies.oracle import Oracle

TABLE = {
    "data": {"name": "communities", "nodes": 120, "communities": 4, "classes": 3, "degree": 6.0},
    "partition": {"name": "random", "clients": 8},
    "model": {"name": "gcn", "hidden": 8},
    "method": {"name": "centralized"},
    "run": {"rounds": 15},
}


def test_one_client_that_holds_everything_is_the_whole_graph():
    alone = TABLE | {"partition": {"name": "shared-graph", "clients": 1}}
    found = Oracle().findings(resolve(alone)).figures
    assert found["subgraphs"] == pytest.approx(found["whole"])


def test_subgraphs_are_scored_without_the_edges_between_them():
    found = Oracle().findings(resolve(TABLE | {"run": {"rounds": 4}})).figures
    assert 33 < found["subgraphs"] < found["whole"] <= 100


def test_methods_that_see_parts_only_are_no_oracle():
    with pytest.raises(AtollError, match="fed-avg never sees the whole graph"):
        studies["oracle"]().findings(resolve(TABLE | {"method": {"name": "fed-avg"}}))
