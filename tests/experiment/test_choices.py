"""Flags and Python arguments lead to the same experiment."""

import pytest

from atoll.cli.options import ALL_OPTIONS
from atoll.cli.options import experiment as from_flags
from atoll.data.split import Split
from atoll.errors import AtollError
from atoll.experiment.choices import choose
from atoll.methods.fed_avg import FedAvg
from atoll.models.sgc import SGC
from atoll.partition.random import Random


def flags(**given):
    return from_flags(dict.fromkeys(ALL_OPTIONS) | given)


def test_flags_and_arguments_mean_the_same():
    chosen = {
        "method": "fed-avg",
        "data": "patients",
        "partition": "random",
        "model": "sgc",
        "optimizer": "sgd",
        "clients": 3,
        "rounds": 7,
        "seed": 2,
        "chunk": 1,
    }
    one = flags(**chosen, set=["method.fraction=0.5", "run.dtype=float64"])
    other = choose(**chosen, settings=[("method.fraction", 0.5), ("run.dtype", "float64")])
    assert one == other
    assert (one.method.fraction, one.run.rounds, one.partition) == (0.5, 7, Random(clients=3))
    assert one.method.optimizer.registered_name == "sgd"


def test_settings_win_over_choices_and_choices_over_a_recipe(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[run]\nrounds = 1\nseed = 1\n[partition]\nname = 'random'\nclients = 2\n")
    chosen = choose(recipe=recipe, rounds=2, clients=3, settings=[("partition.clients", 4)])
    assert (chosen.run.rounds, chosen.run.seed, chosen.partition) == (2, 1, Random(clients=4))


def test_an_owner_column_makes_the_clients_unless_a_partition_is_named():
    natural = choose(data="tables", owner="town")
    assert (natural.data.owner, natural.partition.registered_name) == ("town", "natural")
    cut = choose(data="tables", owner="town", partition="metis")
    assert cut.partition.registered_name == "metis"


def test_a_folder_of_parties_is_not_cut_again(tmp_path):
    chosen = choose(data=f"{tmp_path}/")
    assert (chosen.data.registered_name, chosen.partition.registered_name) == ("parties", "natural")
    assert chosen.split.kind == "public"


def test_objects_take_the_places_of_names():
    split = Split(train=0.5, val=0.3, test=0.2)
    chosen = choose(method="fed-avg", model=SGC(), partition=Random(), clients=5, split=split)
    assert chosen.method == FedAvg(model=SGC())
    assert chosen.partition == Random(clients=5)
    assert chosen.split is split
    method = FedAvg(fraction=0.5)
    assert choose(method=method).method is method


@pytest.mark.parametrize(
    "further",
    [
        {"model": "gcn"},
        {"optimizer": "sgd"},
        {"model": SGC()},
        {"settings": [("model.hidden", 8)]},
        {"settings": [("method.fraction", 0.5)]},
    ],
)
def test_options_of_an_object_are_not_chosen_from_outside(further):
    with pytest.raises(TypeError, match="there"):
        choose(method=FedAvg(), **further)


@pytest.mark.parametrize("path", ["rounds", "run.", ".rounds"])
def test_a_setting_without_section_or_key_is_explained(path):
    with pytest.raises(AtollError, match=r"section\.key=value"):
        choose(settings=[(path, 1)])


def test_a_class_that_is_typed_in_takes_settings_like_any_other():
    code = (
        "from atoll.methods import GlobalModel, option\n"
        "class FedTyped(GlobalModel):\n"
        "    share: float = option(1.0, at_least=0)\n"
    )
    space = {"__name__": "typed_in"}
    exec(code, space)  # as in a notebook: the class has no file
    chosen = choose(
        method=space["FedTyped"], data="patients", model="sage",
        settings=[("method.share", 0.5), ("optimizer.lr", 0.2)],
    ).method  # fmt: skip
    assert (chosen.registered_name, chosen.share) == ("fed-typed", 0.5)
    assert (chosen.model.registered_name, chosen.optimizer.lr) == ("sage", 0.2)
    with pytest.raises(AtollError, match=r"method\.share is -1"):
        choose(method=space["FedTyped"], data="patients", settings=[("method.share", -1.0)])
