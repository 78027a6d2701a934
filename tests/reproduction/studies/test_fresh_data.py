"""GFL's way to repeat an experiment."""

import polars
import pytest

from atoll.errors import AtollError
from atoll.experiment.config import resolve
from atoll.reproduction.recipe import load_recipe, recipe_folder
from atoll.reproduction.studies.base import studies
from atoll.reproduction.studies.fresh_data import FreshData

TABLE = {
    "data": {"name": "csbm-dnc"},
    "split": {"kind": "public"},
    "partition": {"name": "node-per-client"},
    "model": {"name": "mlp", "hidden": 8, "dropout": 0.0, "bias": False},
    "optimizer": {"name": "sgd", "lr": 0.5},
    "method": {"name": "gfl-appnp", "epochs": 25},
    "run": {"rounds": 4},
}


@pytest.fixture
def kept(monkeypatch):
    """The results that the study reads."""
    results = []
    reading = FreshData.of
    monkeypatch.setattr(
        FreshData, "of", lambda self, result: (results.append(result), reading(self, result))[1]
    )
    return results


def test_each_seed_has_its_own_data_and_the_lowest_validation_loss_counts(kept):
    study = studies["fresh-data"]()
    found = [
        study.findings(resolve(TABLE | {"run": {"rounds": 4, "seed": seed}})) for seed in (3, 4)
    ]
    assert [result.experiment.data.seed for result in kept] == [3, 4]
    for findings, result in zip(found, kept, strict=True):
        losses = result.history.group_by("round").agg(polars.col("val_loss").mean()).sort("round")
        assert findings.best_round == losses["round"][losses["val_loss"].arg_min()]
        at_best = result.history.filter(round=findings.best_round)
        assert findings.figures["test_accuracy"] == pytest.approx(
            100 * at_best["test_accuracy"].mean()
        )
        assert findings.figures["val_loss"] == pytest.approx(losses["val_loss"].min())
        # 25 updates per round: one point per two rounds.
        assert findings.arrays["val_loss"].tolist() == pytest.approx(losses["val_loss"][1::2])


def test_data_that_can_not_be_drawn_anew_is_refused():
    experiment = resolve(TABLE | {"data": {"name": "digits"}, "split": {}})
    with pytest.raises(AtollError, match=r"no data\.seed"):
        studies["fresh-data"]().findings(experiment)


@pytest.mark.parametrize("path", sorted((recipe_folder() / "gfl-appnp").glob("*.toml")), ids=str)
def test_the_recipes_can_be_read(path):
    recipe = load_recipe(f"gfl-appnp/{path.stem}")
    for target in recipe.targets:
        experiment = target.experiment(0)
        assert experiment.data.registered_name in ("csbm-dnc", "csbm-snc", "csbm-sc", "subcora")
        assert experiment.run.rounds * experiment.method.epochs >= 200
