import torch

from atoll.experiment.config import resolve
from atoll.experiment.history import History
from atoll.experiment.notes import notes_on
from atoll.federation.calls import Replies
from atoll.tasks.metrics import EXTENDED, NO_SCORE
from atoll.tasks.pooled import OverAll


def test_clients_whose_test_nodes_are_of_one_class_are_named():
    extended = torch.full((3, 3, len(EXTENDED)), 0.5).double()
    extended[1, 2, EXTENDED.index("roc_auc")] = NO_SCORE
    same = torch.full((3, 3), 0.5).double()
    body = {"metric/accuracy": same, "metric/loss": same, "metric/nodes": same * 8}
    replies = Replies(
        (0, 1, 2), body | {"metric/extended": extended}, torch.ones(3), torch.arange(3)
    )
    history = History("accuracy", EXTENDED)
    history.add(1, replies, 0.1, 0, 0)
    history.add_over_all(1, OverAll({"accuracy": 0.5}, ("b", "c")))
    table = history.table()
    assert table["test_roc_auc"].to_list() == [0.5, None, 0.5]
    never, single = notes_on(resolve({}), history, history.best(), {})
    assert "never predicts the classes b and c" in never
    assert "the test nodes of client 1 are all of one class" in single


def test_a_best_round_before_the_method_is_complete_is_said():
    same = torch.full((2, 3), 0.5).double()
    history = History("accuracy")
    for r, val in ((1, 0.4), (2, 0.9), (3, 0.6)):
        body = {"metric/accuracy": same * val, "metric/loss": same, "metric/nodes": same * 8}
        history.add(r, Replies((0, 1), body, torch.ones(2), torch.arange(2)), 0.1, 0, 0)
    gala, best = resolve({"method": {"name": "fed-gala"}}), history.best()
    [note] = notes_on(gala, history, best, {"augmented_round": 2.0})
    assert "(2) comes before what the method is for is done (after round 2)" in note
    for fine in ({"augmented_round": 1.0}, {"augmented_round": 0.0}, {}):
        assert notes_on(gala, history, best, fine) == ()


def test_a_round_that_is_restored_knows_the_best_so_far():
    history = History("loss")
    assert history.leads(0.5)
    assert not history.leads(0.6)
    assert history.leads(0.4)
    assert not history.leads(float("nan"))
