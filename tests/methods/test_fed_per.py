import pytest
import torch
from support import assert_same_model, make, train

from atoll.errors import AtollError
from atoll.models.gat import GAT
from atoll.models.gcn import GCN
from atoll.models.sgc import SGC
from atoll.tree import under
from small_federations import community_parties


@pytest.mark.parametrize(
    ("model", "personal"),
    [
        (GCN(hidden=4), "classifier"),
        (GCN(hidden=4, head="graph"), "conv2"),
        (GAT(hidden=2, heads=2), "gat2"),
    ],
)
def test_the_last_layer_never_crosses(model, personal):
    outcome = train(make("fed-per", model=model), community_parties())
    table = outcome.fed.ledger.table().filter(step="train")
    names = {name.removeprefix("model/") for name in table["name"] if name.startswith("model/")}
    assert names
    assert not any(name.startswith(personal) for name in names)
    everything = set(under(outcome.clients, "model"))
    assert {name for name in everything if name not in names} == {
        name for name in everything if name.startswith(personal)
    }


def test_personal_layers_differ_and_base_layers_are_averaged():
    outcome = train(make("fed-per"), community_parties(), rounds=4)
    classifier = under(outcome.clients, "model")["classifier.weight"]
    assert not torch.equal(classifier[0], classifier[1])
    assert set(under(outcome.server, "model")) == {
        "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
    }  # fmt: skip


def test_with_every_layer_personal_it_is_local_training():
    """SGC has one layer only: nothing is left to share."""
    parties = community_parties()
    local, personal = (train(make(m, model=SGC()), parties) for m in ("local", "fed-per"))
    assert_same_model(local.clients, personal.clients)


def test_another_layer_may_stay():
    outcome = train(make("fed-per", personal="conv1"), community_parties())
    assert "conv1.weight" not in under(outcome.server, "model")
    assert "classifier.weight" in under(outcome.server, "model")


def test_an_unknown_layer_is_named():
    with pytest.raises(AtollError, match="did you mean 'classifier'"):
        train(make("fed-per", personal="clasifier"), community_parties())
