"""Stress in experiments: from a setting to what clients train on."""

import numpy as np
import pytest

import atoll
from atoll.data.in_memory import from_graph
from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.experiment.config import describe, merged, resolve
from atoll.experiment.runner import load_parties
from small_federations import community_parties

FAST = {
    "method": "fed-avg", "data": "digits", "partition": "random", "clients": 4, "rounds": 1,
}  # fmt: skip


def test_a_setting_of_data_is_a_setting_of_stress():
    short = resolve({"data": {"name": "cora", "edge_drop": 0.2, "stress_clients": 0.5}})
    long = resolve({"data": {"name": "cora"}, "stress": {"edge_drop": 0.2, "clients": 0.5}})
    assert short == long
    assert resolve(describe(short)) == short


def test_a_config_without_stress_is_as_it_was():
    assert "stress" not in describe(resolve({}))


def test_another_dataset_keeps_the_stress():
    table = merged({"data": {"name": "cora", "edge_drop": 0.2}}, {"data": {"name": "citeseer"}})
    assert table == {"data": {"name": "citeseer"}, "stress": {"edge_drop": 0.2}}


@pytest.mark.parametrize("path", ["data.edge_drop", "stress.edge_drop"])
def test_clients_have_fewer_edges_and_the_same_cut(path):
    plain = load_parties(choose(**FAST)).graphs
    worse = load_parties(choose(**FAST, settings=[(path, 0.5)])).graphs
    for one, other in zip(plain, worse, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.array_equal(one.test, other.test)
        assert np.array_equal(one.y[one.test], other.y[other.test])
        assert other.edge_count == one.edge_count - round(0.5 * one.edge_count)


def test_any_method_and_any_object(in_tmp):
    graph = community_parties((60,))[0]
    settings = {"data.label_noise": 0.5, "data.feature_noise": 0.1, "data.edge_add": 0.1}
    result = atoll.run(
        method="fed-avg", data=from_graph(graph), partition="random", clients=2, rounds=2,
        settings=settings,
    )  # fmt: skip
    assert result.experiment.stress.label_noise == 0.5
    assert 0 <= result.test_accuracy <= 1
    pooled = atoll.run(method="centralized", data=from_graph(graph), rounds=2, settings=settings)
    assert 0 <= pooled.test_accuracy <= 1


def test_an_unknown_kind_of_stress_is_refused():
    for section in ("stress", "data"):
        with pytest.raises(AtollError, match=rf"{section}\.edge_dorp.*{section}\.edge_drop"):
            resolve({section: {"edge_dorp": 0.1}})


def test_wrong_training_labels_hurt(in_tmp):
    scores = [
        atoll.run(**{**FAST, "rounds": 15}, settings={"data.label_noise": rate}).test_accuracy
        for rate in (0.0, 0.9)
    ]
    assert scores[1] < scores[0] - 0.2


def test_describe_and_split_see_it(here):
    cut = ["--data", "digits", "--partition", "random", "--clients", "3", "--json"]
    plain, worse = here("describe", *cut), here("describe", *cut, "--set", "data.edge_drop=0.5")
    assert worse.returncode == plain.returncode == 0
    assert plain.stdout != worse.stdout


def test_a_deployment_refuses_it():
    from atoll.deploy.plan import Terms, new_plan

    table = {"split": {"kind": "public"}, "data": {"edge_drop": 0.1}}
    with pytest.raises(AtollError, match=r"stress\.edge_drop makes data worse"):
        new_plan("flare", ("a", "b"), resolve(table), Terms())
