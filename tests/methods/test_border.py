"""A beginner's mistakes in a step: each is an error that names the culprit and the remedy."""

import re

import pytest
import torch
from support import SMALL, train

from atoll.errors import NoReplies
from atoll.methods import GlobalModel, Reply, client_step, updated
from atoll.methods.base import SCALAR
from small_federations import community_parties


def trained(step=None, chunk=0, **members):
    """One round of FedAvg whose clients' step is another."""
    if step is not None:
        members["train"] = client_step(step)
    cls = type("Mine", (GlobalModel,), members)
    cls.registered_name = "mine"
    return train(cls(model=SMALL), community_parties(), rounds=1, chunk=chunk)


def trains_what_was_sent(self, client, model):
    return Reply(model=client.descend(lambda w: client.loss(w, training=True), model))


def trains_on_a_loss_that_is_for_looking(self, client, model):
    return Reply(model=client.descend(lambda w: client.loss(w), client.owned(model)))


def returns_its_model(self, client, model):
    return client.fit(model)


def weighs_with_a_number(self, client, model):
    return Reply(model=client.fit(model), weight=1.0)


def sums_over_clients(self, client, model):
    return Reply(model={name: p.sum(0) for name, p in client.fit(model).items()})


def returns_scalars(self, client, model):
    return Reply(model={name: p.sum() for name, p in client.fit(model).items()})


def misspells_the_kind(self, client, modle):
    return Reply(model=client.fit(modle))


def takes_more_than_it_is_sent(self, client, model, prox):
    return Reply(model=client.fit(model))


def keeps_something_new(self, client, model):
    client.state["mine"] = {"x": torch.ones(client.k)}
    return Reply(model=client.fit(model))


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (trains_what_was_sent, "'conv1.weight' was sent and would be trained in place; copy"),
        (trains_on_a_loss_that_is_for_looking, "write client.loss(w, training=True)"),
        (returns_its_model, "step 'train' of Mine returns a dict; it must return a Reply"),
        (weighs_with_a_number, "the weight in the reply of step 'train' of Mine is a float"),
        (sums_over_clients, "has 24 rows for 6 clients; its first axis is that of clients"),
        (returns_scalars, "'model/conv1.weight' in the reply of step 'train' of Mine has 0 rows"),
        (misspells_the_kind, "is sent the kinds ['model'] but takes ['modle']"),
        (takes_more_than_it_is_sent, "takes ['prox'], which it is not sent"),
        (keeps_something_new, "which join makes; it changed ['mine/x']"),
    ],
)
def test_a_mistake_is_named(step, says):
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        trained(step)


def test_writing_into_what_was_sent_is_noticed_where_torch_would_allow_it():
    """One client at a time sees the server's own memory."""

    def train(self, client, model):
        model["conv1.bias"].mul_(2.0)
        return Reply(model=client.fit(model))

    with pytest.raises(TypeError, match=r"writes into \['model/conv1.bias'\].*copy it first"):
        trained(train, chunk=1)


def asks(what):
    def round(self, fed, server, r):
        fed.ask(what, expect={})
        return server

    return {"round": round}


def test_a_step_that_does_not_exist_is_named_with_its_neighbour():
    with pytest.raises(ValueError, match="no client step 'trian': did you mean 'train'"):
        trained(**asks("trian"))
    with pytest.raises(ValueError, match="put @client_step before weight"):
        trained(**asks("weight"))
    with pytest.raises(TypeError, match="asked for by its name"):
        trained(**asks(GlobalModel.train))


def test_a_leaf_is_sent_to_all_or_to_each_but_not_both():
    def round(self, fed, server, r):
        model = {"model": server["model"]}
        fed.sum("train", shared=model, each=model, expect=model)

    with pytest.raises(ValueError, match="sent to all and to each"):
        trained(round=round)


def test_a_reply_whose_form_nobody_expects_is_left_out():
    def round(self, fed, server, r):
        return {"model": fed.sum("sizes", expect={"size": {"labelled": SCALAR}}).mean["size"]}

    with pytest.raises(NoReplies, match="no client gave a usable reply to 'sizes'"):
        trained(round=round)


ROWS = torch.tensor([2, 0, 1])


def test_rows_are_put_where_they_belong_whatever_their_order():
    server = {"norms": {"last": torch.zeros(3), "first": torch.ones(3)}}
    new = updated(server, ROWS, norms={"last": torch.tensor([20.0, 0.0, 10.0])})
    assert new["norms"]["last"].tolist() == [0, 10, 20]
    assert new["norms"]["first"] is server["norms"]["first"]
    between = torch.tensor([[0.0, 1, 2], [3, 4, 5], [6, 7, 8]])
    pairs = updated({"s": {"between": torch.zeros(3, 3)}}, ROWS, s={"between": between})
    assert pairs["s"]["between"].tolist() == [[4, 5, 3], [7, 8, 6], [1, 2, 0]]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"last": torch.zeros(7)}, "takes [3] of torch.float32"),
        ({"last": torch.zeros(3).double()}, "can't update 'norms/last'"),
        ({"lost": torch.zeros(3)}, "no ['lost'] of kind 'norms'"),
    ],
)
def test_rows_that_do_not_fit_a_table_are_refused(table, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        updated({"norms": {"last": torch.zeros(3)}}, ROWS, norms=table)
