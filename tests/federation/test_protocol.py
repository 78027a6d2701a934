"""Bad replies are left out and the result is that of the others alone."""

import math
from dataclasses import dataclass

import pytest
import torch

from atoll.cohort import Cohort
from atoll.errors import NoReplies
from atoll.federation.calls import Reply, client_step
from atoll.federation.host import Host
from atoll.federation.inprocess import InProcess
from atoll.federation.loopback import Loopback
from atoll.federation.tables import updated
from atoll.federation.validation import Batch
from atoll.leaves import Ragged, RaggedLike, Rows, RowsLike
from atoll.masked import MaskedLike
from atoll.methods.base import Method
from small_federations import path_graph

ONE = {"model": {"w": torch.zeros(2, dtype=torch.float64)}}


@dataclass(frozen=True, kw_only=True)
class Speaks(Method):
    """Client k says (k, 10 k) with weight k + 1, unless told otherwise."""

    @client_step
    def speak(self, client, model=None, each=None):
        k = torch.tensor(client.cohort.clients, dtype=torch.float64)
        said = torch.stack([k, 10 * k], dim=1)
        for liar, value in self.lies.items():
            said[k == liar, 0] = value
        weight = k + 1
        for liar, value in self.weights.items():
            weight[k == liar] = value
        return Reply(model={"w": said}, weight=weight)

    @client_step
    def echo(self, client, each):
        return Reply(echo=each)

    @client_step
    def count(self, client):
        draws = [[float(s.random())] for s in client.rng.streams]
        return Reply(draw={"x": torch.tensor(draws, dtype=torch.float64)})

    @client_step
    def fail(self, client):
        raise RuntimeError("boom")

    def not_a_step(self):
        return None

    lies = {}  # noqa: RUF012
    weights = {}  # noqa: RUF012


def federation(chunk=0, lies=None, weights=None, wire=False, clients=4):
    method = type("Speaks", (Speaks,), {"lies": lies or {}, "weights": weights or {}})()
    cohort = Cohort([path_graph([[1.0], [2.0]], [0, 1])] * clients)
    if wire:
        fed = Loopback([Host(method, cohort.take([p]), 0) for p in range(clients)])
    else:
        fed = InProcess(Host(method, cohort, 0, chunk))
    fed.begin(1)
    return fed


ENGINES = [{}, {"chunk": 1}, {"chunk": 3}, {"wire": True}]


@pytest.mark.parametrize("engine", ENGINES)
def test_sum_is_the_weighted_mean(engine):
    # (1*0 + 2*1 + 3*2 + 4*3) / 10 = 2
    total = federation(**engine).sum("speak", weighted=True, expect=ONE)
    assert total.mean["model"]["w"].tolist() == [2.0, 20.0]
    assert (total.weight, total.count) == (10.0, 4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_value_is_left_out_and_the_others_decide(engine, bad, caplog):
    fed = federation(lies={2: bad}, **engine)
    # Without client 2: (1*0 + 2*1 + 4*3) / 7 = 2
    assert fed.sum("speak", weighted=True, expect=ONE).mean["model"]["w"].tolist() == [2.0, 20.0]
    assert [(r.round, r.step, r.client) for r in fed.rejections] == [(1, "speak", 2)]
    assert "client 2" in caplog.text
    replies = fed.ask("speak", weighted=True, expect=ONE)
    assert replies.clients == (0, 1, 3)
    assert replies["model"]["w"][:, 0].tolist() == [0, 1, 3]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_bad_weight_is_left_out(engine, bad):
    fed = federation(weights={3: bad}, **engine)
    # (1*0 + 2*1 + 3*2) / 6
    assert fed.sum("speak", weighted=True, expect=ONE).mean["model"]["w"][
        0
    ].item() == pytest.approx(8 / 6)
    assert [r.client for r in fed.rejections] == [3]


def test_opposite_infinities_do_not_cancel():
    fed = federation(lies={0: math.inf, 1: -math.inf})
    assert fed.sum("speak", weighted=True, expect=ONE).count == 2


@pytest.mark.parametrize("verb", ["ask", "sum"])
def test_values_beyond_any_honest_number_are_left_out(verb):
    # Finite, so that they would pass a look at NaN and infinity, and ruin any model.
    fed = federation(lies={0: 1e14, 1: 1e16, 2: 3e38}, wire=True)
    getattr(fed, verb)("speak", weighted=True, expect=ONE)
    assert [r.client for r in fed.rejections] == [1, 2]


def test_a_weight_that_is_not_due_is_left_out_and_so_is_one_that_is_missing():
    with pytest.raises(NoReplies):
        federation().sum("speak", expect=ONE)
    fed = federation()
    with pytest.raises(NoReplies):
        fed.ask("count", weighted=True, expect={"draw": {"x": torch.zeros(1, dtype=torch.float64)}})
    assert "no weight" in fed.rejections[0].reason


def test_nobody_counts_for_more_than_the_heaviest_it_may():
    fed = federation()
    fed.heaviest = {0: 1.0, 1: 1.5, 2: 3.0}
    # Client 1 weighs 2: (1*0 + 3*2 + 4*3) / 8
    assert fed.sum("speak", weighted=True, expect=ONE).mean["model"]["w"][0].item() == 18 / 8
    assert fed.rejections[0].reason == "its weight is 2, more than the 1.5 it has"


@pytest.mark.parametrize(
    ("expect", "reason"),
    [
        ({"model": {"v": ONE["model"]["w"]}}, "missing"),
        ({"model": {"w": torch.zeros(3, dtype=torch.float64)}}, "shape"),
        ({"model": {"w": torch.zeros(2, dtype=torch.float32)}}, "float64"),
        ({"model": {"w": RaggedLike(ONE["model"]["w"])}}, "ragged"),
        ({"model": {"w": RowsLike(ONE["model"]["w"], 3)}}, "rows of a table"),
        ({"model": {"w": MaskedLike(ONE["model"]["w"])}}, "masked"),
    ],
)
def test_replies_that_do_not_look_as_expected_are_left_out(expect, reason):
    fed = federation(wire=True)
    with pytest.raises(NoReplies, match="speak"):
        fed.ask("speak", weighted=True, expect=expect)
    assert len(fed.rejections) == 4
    assert reason in fed.rejections[0].reason


def test_one_misshapen_reply_among_good_ones():
    class Tampered(Loopback):
        def deliver(self, call, to, each):
            for batch in super().deliver(call, to, each):
                if batch.clients == (1,):
                    batch = Batch((1,), {"model/w": torch.ones(1, 1)}, batch.weight)
                yield batch

    fed = federation(wire=True)
    tampered = Tampered(list(fed.hosts.values()))
    tampered.begin(1)
    # (1*0 + 3*2 + 4*3) / 8; numpy would have broadcast the (1,) silently.
    assert tampered.sum("speak", weighted=True, expect=ONE).mean["model"]["w"][
        0
    ].item() == pytest.approx(18 / 8)
    assert [r.client for r in tampered.rejections] == [1]


def test_nobody_left_is_an_error_that_names_step_and_round():
    fed = federation(lies=dict.fromkeys(range(4), math.nan))
    with pytest.raises(NoReplies, match="'speak' in round 1"):
        fed.sum("speak", weighted=True, expect=ONE)


@pytest.mark.parametrize("engine", ENGINES)
def test_each_client_gets_its_own_row(engine):
    fed = federation(**engine)
    to = (3, 0, 2)
    dense = torch.tensor([[30.0], [0.0], [20.0]])
    ragged = Ragged(torch.arange(6.0)[:, None], (1, 3, 2))
    expect = {"echo": {"dense": torch.zeros(1), "ragged": RaggedLike(torch.zeros(1))}}
    replies = fed.ask(
        "echo", each={"each": {"dense": dense, "ragged": ragged}}, to=to, expect=expect
    )
    assert replies.clients == to
    assert replies["echo"]["dense"].tolist() == [[30.0], [0.0], [20.0]]
    assert replies["echo"]["ragged"].sizes == (1, 3, 2)
    assert replies["echo"]["ragged"].values.flatten().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bad_value_in_a_ragged_reply_is_left_out(engine):
    fed = federation(**engine)
    rows = Ragged(torch.tensor([[1.0], [2.0], [math.nan], [4.0]]), (1, 1, 2, 0))
    expect = {"echo": {"rows": RaggedLike(torch.zeros(1))}}
    replies = fed.ask("echo", each={"each": {"rows": rows}}, expect=expect)
    assert replies.clients == (0, 1, 3)
    assert replies["echo"]["rows"].sizes == (1, 1, 0)
    assert replies["echo"]["rows"].values.flatten().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_asking_twice_in_a_round_draws_anew_and_the_next_run_repeats_it(engine):
    expect = {"draw": {"x": torch.zeros(1, dtype=torch.float64)}}
    fed = federation(**engine)
    first, second = (fed.ask("count", expect=expect)["draw"]["x"] for _ in range(2))
    assert not torch.equal(first, second)
    assert len(set(first.flatten().tolist())) == 4
    again = federation(chunk=1).ask("count", expect=expect)["draw"]["x"]
    assert torch.equal(first, again)


@pytest.mark.parametrize("chunk", [0, 1])
def test_an_error_in_a_step_says_where_it_happened(chunk):
    fed = federation(chunk=chunk)
    with pytest.raises(RuntimeError, match="boom") as problem:
        fed.ask("fail", to=(2,) if chunk else None, expect={})
    [note] = problem.value.__notes__
    assert "step 'fail' of round 1" in note
    assert ("(2,)" if chunk else "(0, 1, 2, 3)") in note


def test_only_steps_can_be_asked_for():
    with pytest.raises(ValueError, match="no client step 'not_a_step'"):
        federation().ask("not_a_step", expect={})


def test_replies_do_not_alias_the_clients_memory():
    fed = federation()
    body = fed.ask("speak", weighted=True, expect=ONE)["model"]["w"]
    body += 1000
    assert fed.ask("speak", weighted=True, expect=ONE)["model"]["w"][0, 0].item() == 0


def test_the_ledger_records_every_tensor_that_crosses():
    fed = federation()
    each = {"each": {"a": Ragged(torch.zeros(3, 5), (1, 2))}}
    fed.sum("speak", shared=ONE, each=each, to=(1, 3), expect=ONE, weighted=True)
    table = fed.ledger.table()
    rows = {
        (r["direction"], r["name"], r["client"]): (r["kind"], r["shape"], r["dtype"], r["bytes"])
        for r in table.iter_rows(named=True)
    }
    assert rows == {
        ("down", "model/w", 1): ("model", "[2]", "float64", 16),
        ("down", "model/w", 3): ("model", "[2]", "float64", 16),
        ("down", "each/a", 1): ("each", "[1, 5]", "float32", 20),
        ("down", "each/a", 3): ("each", "[2, 5]", "float32", 40),
        ("up", "model/w", 1): ("model", "[2]", "float64", 16),
        ("up", "model/w", 3): ("model", "[2]", "float64", 16),
        ("up", "weight", 1): ("weight", "[]", "float64", 8),
        ("up", "weight", 3): ("weight", "[]", "float64", 8),
    }
    assert set(table["round"]) == {1}
    assert (fed.ledger.bytes("up"), fed.ledger.bytes("down")) == (48, 92)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_per_client_are_held_against_what_is_due(engine):
    rows = {"each": {"rows": Ragged(torch.arange(6.0)[:, None], (1, 3, 2, 0))}}
    like = RaggedLike(torch.zeros(1), exactly={0: 1, 1: 2, 2: 2, 3: 0})
    fed = federation(**engine)
    replies = fed.ask("echo", each=rows, expect={"echo": {"rows": like}})
    assert replies.clients == (0, 2, 3)
    assert replies.rows.tolist() == [0, 2, 3]
    assert replies["echo"]["rows"].values.flatten().tolist() == [0, 4, 5]
    assert "3 rows where 2 are due" in fed.rejections[0].reason
    few = RaggedLike(torch.zeros(1), at_most=1)
    replies = federation(**engine).ask("echo", each=rows, expect={"echo": {"rows": few}})
    assert replies.clients == (0, 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_table_must_be_named_in_order_and_exist(engine):
    at = torch.tensor([0, 2, 1, 0, 3, 5, 2, 2], dtype=torch.int32)
    sizes = (2, 2, 2, 2)  # fine, not ascending, out of range, named twice
    table = Rows(Ragged(at, sizes), Ragged(torch.arange(8.0)[:, None], sizes))
    expect = {"echo": {"table": RowsLike(torch.zeros(1), length=4)}}
    fed = federation(**engine)
    replies = fed.ask("echo", each={"each": {"table": table}}, expect=expect)
    assert replies.clients == (0,)
    assert replies["echo"]["table"].at.values.tolist() == [0, 2]
    assert [r.client for r in fed.rejections] == [1, 2, 3]
    up = fed.ledger.table().filter(direction="up", client=0)
    assert dict(zip(up["name"], up["bytes"], strict=True)) == {
        "echo/table": 8,
        "echo/table#at": 8,
    }


def test_a_kind_that_a_step_does_not_name_is_an_error_that_says_so():
    with pytest.raises(TypeError, match=r"'fail' of Speaks is sent.*'model'.*takes \[\]"):
        federation().ask("fail", shared=ONE, expect={})


def test_what_all_get_alike_has_an_axis_of_clients_too():
    class Sees(Speaks):
        @client_step
        def look(self, client, both):
            assert both["a"].shape == both["b"].shape == (client.k, 2)
            return Reply(sum={"ab": both["a"] + both["b"]})

    cohort = Cohort([path_graph([[1.0], [2.0]], [0, 1])] * 3)
    fed = InProcess(Host(Sees(), cohort, 0))
    fed.begin(1)
    found = fed.ask(
        "look",
        shared={"both": {"a": torch.tensor([1.0, 2.0])}},
        each={"both": {"b": torch.arange(6.0).view(3, 2)}},
        expect={"sum": {"ab": torch.zeros(2)}},
    )
    assert found["sum"]["ab"].tolist() == [[1, 3], [3, 5], [5, 7]]


def test_updated_replaces_the_rows_of_those_who_answered():
    server = {
        "model": {"w": torch.zeros(3, 2)},
        "similarity": {"between": torch.eye(3)},
        "other": {"x": torch.ones(1)},
    }
    rows = torch.tensor([0, 2])
    new = updated(
        server,
        rows,
        model={"w": torch.tensor([[1.0, 1], [2, 2]])},
        similarity={"between": torch.tensor([[1.0, 0.5], [0.5, 1.0]])},
    )
    assert new["model"]["w"].tolist() == [[1, 1], [0, 0], [2, 2]]
    assert new["similarity"]["between"].tolist() == [[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]]
    assert new["other"] is server["other"]
    assert server["model"]["w"].tolist() == [[0, 0]] * 3


def test_updated_replaces_the_blocks_of_a_ragged_table():
    server = {"public": {"vectors": Ragged(torch.tensor([1.0, 2, 3]), (1, 0, 2))}}
    means = Ragged(torch.tensor([7.0, 8, 9]), (2, 1))
    vectors = updated(server, torch.tensor([1, 2]), public={"vectors": means})["public"]["vectors"]
    assert [block.tolist() for block in vectors.blocks()] == [[1], [7, 8], [9]]
