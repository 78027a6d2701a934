"""Every method takes any model and optimizer, but for those that docs/methods.md names."""

from pathlib import Path

import pytest
from support import NAMES, assert_same, make, small_parties, train, values

from atoll.errors import AtollError
from atoll.models.mlp import MLP
from atoll.models.sgc import SGC
from atoll.optimizers.adam import Adam
from atoll.optimizers.sgd import SGD

MODELS = {"sgc": SGC(), "mlp": MLP(hidden=8), "bare mlp": MLP(hidden=8, dropout=0.0, bias=False)}
OPTIMIZERS = {"sgd": SGD(), "adam": Adam()}
NOT_MLP = {("sgc", optimizer) for optimizer in OPTIMIZERS}
# What a method refuses; it takes all the rest.
ALL = {(model, optimizer) for model in MODELS for optimizer in OPTIMIZERS}
REFUSED = {
    "fed-aux": ALL,
    "fed-iih": ALL,
    "fed-star": ALL,
    "fed-mlp": NOT_MLP,
    "mlp": NOT_MLP,
    # Plain gradient descent, and no dropout.
    "gfl-appnp": ALL - {("bare mlp", "sgd"), ("sgc", "sgd")},
}
REMEDY = r"^[^.]*; set ((model|optimizer)\.name|model\.dropout)="


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_a_method_trains_any_model_with_any_optimizer_or_says_why_not(name, model, optimizer):
    parts = {"model": MODELS[model], "optimizer": OPTIMIZERS[optimizer]}
    if (model, optimizer) in REFUSED.get(name, set()):
        with pytest.raises(AtollError, match=REMEDY) as refusal:
            make(name, **parts)
        assert str(refusal.value).endswith(".")
        return
    method = make(name, **parts)
    assert (method.model, method.optimizer) == (parts["model"], parts["optimizer"])
    outcome = train(method, small_parties(name), rounds=1)
    leaves = [*outcome.clients.values(), *outcome.replies.body.values()]
    assert all(values(leaf).isfinite().all() for leaf in leaves)


def test_ppfl_deepwalk_uses_neither():
    parties = small_parties("ppfl-deepwalk")
    one = train(make("ppfl-deepwalk"), parties, rounds=2)
    other = train(make("ppfl-deepwalk", model=SGC(), optimizer=SGD(lr=9.0)), parties, rounds=2)
    assert_same(one, other, 0.0)


def test_the_docs_name_those_that_do_not():
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    [paragraph] = [p for p in page.split("\n\n") if "any model and optimizer" in p]
    others = ("fed-gnn", "graphfl", "ppfl-deepwalk")
    assert all(f"`{name}`" in paragraph for name in (*REFUSED, *others))
