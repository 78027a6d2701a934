import pytest

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.reproduction.studies.alignment import Alignment, FirstIteration

SMALL = {
    "data": {"name": "communities", "nodes": 90, "communities": 3, "classes": 3, "degree": 6.0},
    "partition": {"name": "public-nodes", "clients": 2},
    "method": {"name": "ppfl-deepwalk", "walks": 3, "length": 10, "dimensions": 4},
    "run": {"rounds": 3},
}


def test_figures_add_up():
    found = Alignment().findings(resolve(SMALL)).figures
    for c in ("mlp", "svc"):
        loc = [found[f"{c}_loc_{k}"] for k in (1, 2)]
        fed = [found[f"{c}_fed_{k}"] for k in (1, 2)]
        assert found[f"{c}_loc"] == pytest.approx(sum(loc) / 2)
        assert found[f"{c}_global"] == pytest.approx(sum(fed) - sum(loc))
        assert found[f"{c}_gain"] == pytest.approx(found[f"{c}_global"] / 2)
        assert found[f"{c}_gain_2"] == pytest.approx(fed[1] - loc[1])
        assert all(0 < score <= 100 for score in (*loc, *fed))
    assert 0 < found["precision_1"] <= found["precision_10"] <= 100


def test_the_first_iteration_is_before_any_exchange():
    """With one round LOC is the first iteration, and FED has received nothing yet."""
    found = Alignment().findings(resolve(SMALL)).figures
    once = Alignment().findings(resolve(SMALL | {"run": {"rounds": 1}})).figures
    for c in ("mlp", "svc"):
        first = [found[f"{c}_first_{k}"] for k in (1, 2)]
        assert first == [once[f"{c}_loc_{k}"] for k in (1, 2)]
        assert first == [once[f"{c}_fed_{k}"] for k in (1, 2)]
        fed = [found[f"{c}_fed_{k}"] for k in (1, 2)]
        assert found[f"{c}_rise_global"] == pytest.approx(sum(fed) - sum(first))
        assert found[f"{c}_rise"] == pytest.approx(found[f"{c}_rise_global"] / 2)
    less = FirstIteration().findings(resolve(SMALL)).figures
    assert less == {name: found[name] for name in less}
    assert not any("_loc" in name for name in less)


def test_one_client_is_the_full_graph():
    whole = SMALL | {"partition": {"name": "public-nodes", "clients": 1}}
    found = Alignment().findings(resolve(whole)).figures
    assert set(found) == {"mlp_loc", "mlp_loc_1", "svc_loc", "svc_loc_1"}
    begun = FirstIteration().findings(resolve(whole)).figures
    assert set(begun) == {"mlp_first", "mlp_first_1", "svc_first", "svc_first_1"}


def test_other_methods_have_nothing_to_compare():
    with pytest.raises(AtollError, match="fed-avg aligns no embeddings"):
        Alignment().findings(resolve(SMALL | {"method": {"name": "fed-avg"}}))
