import pytest

from atoll.errors import AtollError
from atoll.experiment.config import describe, merged, read_recipe, read_table, resolve, setting
from atoll.methods.fed_avg import FedAvg
from atoll.models.gcn import GCN
from atoll.models.sage import SAGE


def test_names_and_values_become_typed_objects():
    experiment = resolve(
        {
            "method": {"name": "fed-avg", "fraction": 1},
            "model": {"hidden": 16},
            "partition": {"clients": 3},
        }
    )
    assert isinstance(experiment.method, FedAvg)
    assert experiment.method.fraction == 1.0
    assert experiment.method.model.hidden == 16
    assert experiment.partition.clients == 3


def test_without_a_model_a_method_has_its_own():
    assert resolve({"method": {"name": "fed-sage"}}).method.model == SAGE()
    assert resolve({"method": {"name": "fed-avg"}}).method.model == GCN()
    wide = resolve({"method": {"name": "fed-sage"}, "model": {"hidden": 16}}).method.model
    assert wide == SAGE(hidden=16)
    given = {"method": {"name": "fed-sage"}, "model": {"name": "gcn"}}
    assert resolve(given).method.model == GCN()


def test_describe_is_the_inverse_of_resolve():
    table = {"data": {"name": "patients"}, "optimizer": {"name": "sgd", "lr": 0.5}}
    experiment = resolve(table)
    assert resolve(describe(experiment)) == experiment
    assert describe(experiment)["run"]["rounds"] == 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("method.mu=0.1", ("method.mu", 0.1)),
        ("run.chunk = 3", ("run.chunk", 3)),
        ("data.normalise=false", ("data.normalise", False)),
        ("model.head=graph", ("model.head", "graph")),
        ('model.head="graph"', ("model.head", "graph")),
    ],
)
def test_settings_are_read_as_toml_or_bare_text(text, expected):
    assert setting(text) == expected


def test_later_tables_win_and_a_new_name_drops_the_old_ones_options():
    table = merged(
        {"model": {"name": "gcn", "head": "graph"}, "run": {"seed": 1}},
        {"model": {"name": "sgc"}, "run": {"rounds": 2}},
    )
    assert table == {"model": {"name": "sgc"}, "run": {"seed": 1, "rounds": 2}}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"method": {"name": "fed-avgg"}}, "unknown method 'fed-avgg': did you mean 'fed-avg'?"),
        ({"data": {"name": "corra"}}, "unknown dataset 'corra': did you mean 'cora'?"),
        ({"partition": {"name": "metiss"}}, "did you mean 'metis'?"),
        ({"model": {"name": "gcnn"}}, "did you mean 'gcn'?"),
        ({"optimizer": {"name": "adamm"}}, "did you mean 'adam'?"),
        (
            {"method": {"name": "fed-avg", "fractoin": 1}},
            "'method.fractoin': did you mean 'method.fraction'?",
        ),
        ({"metod": {}}, "unknown config section 'metod': did you mean 'method'?"),
        ({"run": {"rounds": "many"}}, "run.rounds is 'many', a str; it must be int"),
        ({"run": {"rounds": True}}, "run.rounds is True, a bool"),
        ({"run": {"rounds": 0}}, "run.rounds is 0"),
        ({"run": {"seed": -1}}, "run.seed is -1"),
        ({"run": {"dtype": "float16"}}, "float16"),
        ({"model": {"dropout": 1.0}}, "model.dropout is 1.0"),
        ({"model": {"head": "liner"}}, "did you mean 'linear'?"),
        ({"optimizer": {"lr": "fast"}}, "optimizer.lr is 'fast'"),
        ({"split": {"train": 0.7}}, "sum to 1.5"),
        ({"split": {"val": 0.0}}, "split.val is 0"),
        ({"partition": {"clients": 0}}, "partition.clients is 0"),
        ({"method": {"epochs": 0}}, "method.epochs is 0"),
        ({"method": {"name": 3}}, "method.name is 3"),
    ],
)
def test_mistakes_are_one_sentence_that_names_the_culprit(table, sentence):
    with pytest.raises(AtollError) as problem:
        resolve(table)
    assert sentence in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_key_outside_any_section_is_explained():
    with pytest.raises(AtollError, match=r"'rounds' stands alone.*\[run\]"):
        merged({"rounds": 5})


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(AtollError, match=r"no file .*absent\.toml"):
        read_table(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[run\nrounds = 1")
    with pytest.raises(AtollError, match=r"broken\.toml"):
        read_table(broken)
    with pytest.raises(AtollError, match="can't be read"):
        read_table(tmp_path)


@pytest.mark.parametrize("text", ["rounds=3", "run.rounds", "=", "run.=3"])
def test_malformed_settings_are_explained(text):
    with pytest.raises(AtollError, match=r"section\.key=value"):
        setting(text)


def test_a_method_brings_its_own_model_and_optimizer():
    method = resolve({"method": {"name": "gfl-appnp"}, "model": {"hidden": 8}}).method
    assert (method.model.registered_name, method.model.hidden) == ("mlp", 8)
    assert (method.model.bias, method.model.dropout) == (False, 0.0)
    assert (method.optimizer.registered_name, method.optimizer.lr) == ("sgd", 0.5)
    other = resolve(
        {"method": {"name": "fed-mlp"}, "model": {"name": "mlp"}, "optimizer": {"lr": 1}}
    )
    assert (other.method.model.bias, other.method.optimizer.lr) == (False, 1.0)
    plain = resolve({"method": {"name": "fed-avg"}}).method
    assert (plain.model.registered_name, plain.optimizer.registered_name) == ("gcn", "adam")


@pytest.mark.parametrize("section", ["run", "data", "method", "split", "model", "task"])
@pytest.mark.parametrize("value", ["gcn", 3, [1], None])
def test_a_section_that_is_none_is_one_sentence(section, value):
    with pytest.raises(AtollError, match=rf"'{section}' must be a section of settings, as in \["):
        resolve({section: value})


def test_a_recipe_that_names_a_method_where_a_section_is_due(tmp_path):
    (tmp_path / "recipe.toml").write_text('method = "fed-avg"\n')
    with pytest.raises(AtollError, match="it can't be 'fed-avg'"):
        read_recipe(tmp_path / "recipe.toml")
