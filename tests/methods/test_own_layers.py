"""Layers that stay with each client, and federations in which they must."""

from dataclasses import replace

import pytest
import torch

from atoll.errors import AtollError
from atoll.experiment.own_spaces import refuse_shared_spaces
from atoll.laws.federation import train
from atoll.methods.base import methods
from atoll.models.gin import GIN
from atoll.models.star_gin import StarGIN
from atoll.tasks.graphs import GraphClassification
from atoll.tree import under
from small_collections import collection_parties

OWN = ("input", "post", "classifier")
TASK = GraphClassification(batch=2)
MODEL = GIN(hidden=4, layers=1)
STAR = StarGIN(hidden=4, layers=1, walks=2, degrees=2)


def make(name, **options):
    return methods[name](task=TASK, model=STAR if name == "fed-star" else MODEL, **options)


@pytest.mark.parametrize(
    ("name", "options", "shared"),
    [
        ("fed-avg", {"own_layers": OWN}, "conv1."),
        ("fed-prox", {"own_layers": OWN}, "conv1."),
        ("gcfl", {"own_layers": OWN}, "conv1."),
        ("fed-per", {"own_layers": ("input", "post")}, "conv1."),
        ("fed-star", {}, "structure."),
    ],
)
def test_what_stays_is_neither_sent_nor_at_the_server(name, options, shared):
    outcome = train(make(name, **options), collection_parties(), rounds=2)
    sent = outcome.fed.ledger.table().filter(kind="model")["name"].unique().to_list()
    assert sent
    assert all(n.startswith(f"model/{shared}") for n in sent)
    assert all(n.startswith(shared) for n in under(outcome.server, "model"))
    own = under(outcome.clients, "model")["classifier.weight"]
    assert not torch.allclose(own[0], own[1])


def test_shared_layers_are_the_weighted_mean():
    """Of what clients have trained: weights are their numbers of training graphs."""
    parties = collection_parties()
    outcome = train(make("fed-star"), parties, rounds=1)
    n = torch.tensor([float(g.train.sum()) for g in parties], dtype=torch.float64)
    local, mean = (under(part, "model") for part in (outcome.clients, outcome.server))
    for name, p in mean.items():
        expected = torch.tensordot(n / n.sum(), local[name], dims=1)
        torch.testing.assert_close(p, expected, rtol=0, atol=1e-12)


def test_one_client_of_fed_star_trains_alone():
    alone = collection_parties((9,))
    star, local = (
        train(make("fed-star"), alone),
        train(methods["local"](task=TASK, model=STAR), alone),
    )
    for name, p in under(star.clients, "model").items():
        torch.testing.assert_close(p, under(local.clients, "model")[name], rtol=0, atol=1e-12)


def test_gcfl_that_never_splits_is_fed_avg_of_its_shared_layers():
    parties = collection_parties()
    gcfl = train(make("gcfl", own_layers=OWN, warmup=99), parties)
    fed_avg = train(make("fed-avg", own_layers=OWN), parties)
    for name, p in under(fed_avg.server, "model").items():
        for mine in under(gcfl.server, "model")[name]:
            torch.testing.assert_close(mine, p, rtol=0, atol=1e-10)


def with_spaces():
    return [replace(g, space=str(k)) for k, g in enumerate(collection_parties())]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            make("fed-avg"),
            r"'input.weight' can't be shared; set method.own_layers=\[\"input\", \"c",
        ),
        (make("fed-avg", own_layers=("input",)), "'classifier.weight' can't be shared"),
        (make("fed-pub"), "choose a method with own_layers"),
        (make("centralized"), "trains one model on everybody's data"),
    ],
)
def test_features_that_mean_something_else_are_not_shared(method, message):
    with pytest.raises(AtollError, match=message):
        refuse_shared_spaces(method, with_spaces())
    refuse_shared_spaces(method, collection_parties())


@pytest.mark.parametrize(
    "method",
    [
        make("local"),
        make("fed-star"),
        make("gcfl", own_layers=OWN),
        make("fed-avg", own_layers=OWN),
    ],
    ids=lambda method: method.registered_name,
)
def test_what_shares_no_such_layer_is_welcome(method):
    refuse_shared_spaces(method, with_spaces())


def test_a_layer_that_there_is_not_is_named():
    with pytest.raises(AtollError, match=r"layer \(method.own_layers\).*'convolution'"):
        train(make("fed-avg", own_layers=("convolution",)), collection_parties(), rounds=1)
