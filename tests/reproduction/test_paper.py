"""``--settings paper``: what a method is run with is what its recipe says, line by line."""

import pytest

import atoll
from atoll.cli.options import experiment
from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.experiment.config import describe
from atoll.methods.base import methods
from atoll.reproduction.paper import paper_settings, papers_of
from atoll.reproduction.recipe import load_recipe

WITH_PAPER = [name for name in methods if methods[name].paper]


@pytest.mark.parametrize("name", WITH_PAPER)
def test_the_flag_gives_what_the_recipe_runs(name):
    """For every dataset that the method's recipes have: the first cell that runs it there."""
    first = {}
    for recipe in methods[name].paper:
        for target in load_recipe(recipe).targets:
            if target.settings["method"]["name"] == name:
                first.setdefault(target.settings["data"]["name"], target)
    assert first, f"no cell of {methods[name].paper} runs {name}"
    for data, target in first.items():
        chosen = choose(method=name, data=data, paper=paper_settings)
        assert describe(chosen) == describe(target.experiment(0))


def test_choices_win_and_other_data_has_the_general_settings():
    chosen = choose(
        method="fed-pub",
        data="digits",
        rounds=7,
        settings=[("method.tau", 9.0)],
        paper=paper_settings,
    )
    assert (chosen.run.rounds, chosen.method.tau, chosen.method.l1) == (7, 9.0, 0.001)
    assert chosen.method.optimizer.weight_decay == 1e-6
    assert chosen.data.registered_name == "digits"
    # Without any data it is the paper's first.
    assert choose(method="fed-gala", paper=paper_settings).data.registered_name == "cora"


def test_methods_that_are_compared_share_data_and_cut():
    together = ["local", "centralized", "fed-gala", "fed-pub", "fed-sage"]
    chosen = {
        name: describe(choose(method=name, data="cora", paper=papers_of(together)))
        for name in together
    }
    for section in ("data", "split", "partition", "run"):
        assert all(table[section] == chosen["fed-gala"][section] for table in chosen.values())
    assert chosen["fed-gala"]["partition"]["name"] == "louvain-anchors"
    assert chosen["fed-gala"]["model"]["dropout"] == 0.3
    assert chosen["fed-pub"]["model"]["dropout"] == 0.5
    # No recipe runs fed-sage by itself: it has the leading method's optimizer.
    assert chosen["fed-sage"]["optimizer"] == chosen["fed-gala"]["optimizer"]


def test_a_method_without_a_paper_is_one_sentence():
    with pytest.raises(AtollError, match="no recipe has the settings of fed-sage's paper"):
        choose(method="fed-sage", paper=paper_settings)


@pytest.mark.parametrize(
    ("name", "partition"),
    [("fed-gala", "louvain-anchors"), ("ppfl-gat", "public-nodes"), ("fed-avg", "metis")],
)
def test_methods_that_need_shared_nodes_get_them_unless_a_cut_is_chosen(name, partition):
    assert choose(method=name, data="cora").partition.registered_name == partition
    assert choose(method=name, partition="louvain").partition.registered_name == "louvain"
    beside = choose(method="local", data="cora", clients=3, beside=["local", name])
    assert (beside.partition.registered_name, beside.partition.clients) == (partition, 3)


def test_from_python_and_from_the_command_line(tmp_path):
    result = atoll.run(
        method="fed-prox",
        data="digits",
        clients=2,
        rounds=1,
        settings="paper",
        out=tmp_path / "run",
    )
    method = result.experiment.method
    assert (method.mu, method.epochs, method.optimizer.weight_decay) == (1.0, 1, 1e-6)
    found = atoll.compare(
        methods=["local", "fed-prox"],
        data="digits",
        clients=2,
        rounds=1,
        seeds=1,
        settings="paper",
        out=tmp_path / "compared",
    )
    assert found.plan.methods["fed-prox"].method.mu == 1.0
    given = experiment({"method": "fed-prox", "data": "digits", "settings": "paper", "clients": 2})
    assert describe(given)["method"] == describe(result.experiment)["method"]
    for act in (
        lambda: experiment({"settings": "papers"}),
        lambda: atoll.run(settings="papers", out=tmp_path / "never"),
    ):
        with pytest.raises(AtollError, match="'papers': did you mean 'paper'"):
            act()
