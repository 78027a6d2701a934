import signal
from dataclasses import replace

import pytest
import torch
from support import assert_same, assert_same_model, make, train

from atoll.errors import AtollError, Interrupted
from atoll.experiment.checkpoint import load_checkpoint
from atoll.experiment.config import resolve
from atoll.experiment.runner import resume, run_experiment
from atoll.federation.validation import without
from atoll.methods.gcfl import GCFL
from atoll.methods.gcfl.clustering import dtw_distances, min_cut
from atoll.tree import copy, flat, nested, under
from small_federations import community_parties


def two_camps():
    """Six parties; the last three call class 0 what the others call class 1, and vice versa."""
    parties = community_parties((30,) * 6, classes=2)
    return parties[:3] + [replace(p, y=1 - p.y) for p in parties[3:]]


def clusters(outcome):
    return outcome.server["cluster/of"].tolist()


def test_without_a_split_it_is_fed_avg():
    parties = community_parties()
    one, avg = train(make("gcfl", epochs=2), parties), train(make("fed-avg", epochs=2), parties)
    assert clusters(one) == [0] * 6
    assert_same_model(one.clients, avg.clients)
    for name, leaf in under(avg.server, "model").items():
        for row in under(one.server, "model")[name]:
            torch.testing.assert_close(row, leaf, rtol=0, atol=1e-12)


def test_clients_whose_labels_contradict_part():
    outcome = train(make("gcfl", warmup=4, smallest=3), two_camps(), rounds=8)
    assert clusters(outcome) == [0, 0, 0, 1, 1, 1]
    models = under(outcome.server, "model")
    for p in models.values():
        assert torch.equal(p[0], p[1])
        assert torch.equal(p[3], p[5])
        assert not torch.equal(p[0], p[3])


def test_after_the_split_each_camp_does_better_than_all_together():
    def accuracy(method):
        return float(
            train(method, two_camps(), rounds=30).replies.body["metric/accuracy"][:, 1].mean()
        )

    split = make("gcfl", warmup=4, smallest=3, evaluates="cluster")
    assert accuracy(split) > accuracy(make("fed-avg", evaluates="global")) + 0.1


def test_a_split_round_by_hand():
    """Cut by the cosine of the updates; then each side moves by its own weighted mean."""
    parties = community_parties()
    before = train(make("gcfl", warmup=1), parties, rounds=1)
    after = train(make("gcfl", warmup=1), parties, rounds=2)
    sent, trained = under(before.server, "model"), under(after.clients, "model")
    flat = torch.cat([(trained[n] - sent[n]).flatten(1) for n in sent], dim=1)
    unit = flat / flat.norm(dim=1, keepdim=True)
    side = min_cut(1 + unit @ unit.T)
    assert clusters(after) == side.long().tolist()
    weight = torch.tensor([float(p.train.sum()) for p in parties], dtype=torch.float64)
    for part in (side, ~side):
        share = weight * part / (weight * part).sum()
        for name, p in under(after.server, "model").items():
            mean = torch.tensordot(share, trained[name], dims=1)
            for row in p[part]:
                torch.testing.assert_close(row, mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("blocked", [{"eps1": 1e-6}, {"eps2": 1e6}, {"warmup": 9}])
def test_no_split_before_its_time(blocked):
    options = {"warmup": 1} | blocked
    assert clusters(train(make("gcfl", **options), community_parties(), rounds=3)) == [0] * 6
    assert clusters(train(make("gcfl", warmup=1), community_parties(), rounds=3)) != [0] * 6


def test_pairs_stay_together_unless_told():
    parties = community_parties()
    many = clusters(train(make("gcfl", warmup=0), parties, rounds=8))
    assert max(many.count(c) for c in many) == 2
    assert sorted(set(many)) == list(range(len(set(many))))
    alone = train(make("gcfl", warmup=0, smallest=1), parties, rounds=8)
    assert sorted(clusters(alone)) == list(range(6))


def test_the_plus_form_cuts_by_the_windows_of_norms():
    parties = community_parties()
    options = {"sequences": True, "warmup": 0, "window": 3}
    before = train(make("gcfl", **options), parties, rounds=2)
    assert clusters(before) == [0] * 6
    assert before.server["window/filled"].tolist() == [2] * 6
    after = train(make("gcfl", **options), parties, rounds=3)
    norms = after.server["window/norms"]
    torch.testing.assert_close(norms[:, :2], before.server["window/norms"][:, 1:])
    distances = dtw_distances(norms)
    assert clusters(after) == min_cut(distances.max() - distances).long().tolist()
    assert after.server["window/filled"].tolist() == [0] * 6


def test_norms_in_the_window_are_those_of_the_updates():
    parties = community_parties()
    outcome = train(make("gcfl", sequences=True), parties, rounds=1)
    start = train(make("gcfl"), parties, rounds=0)
    sent, trained = under(start.server, "model"), under(outcome.clients, "model")
    expected = sum((trained[n] - sent[n]).flatten(1).square().sum(1) for n in sent).sqrt()
    torch.testing.assert_close(outcome.server["window/norms"][:, -1], expected)


def test_standardised_windows_compare_shapes():
    """The same curve at twice the height is most similar when standardised, and only then."""
    curve = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)
    windows = {"norms": torch.stack([curve, 2 * curve, torch.tensor([3.0, 1.0, 1.0]).double()])}
    shapes = GCFL(sequences=True, window=3, standardise=True).similarity(curve, windows)
    heights = GCFL(sequences=True, window=3).similarity(curve, windows)
    assert float(shapes[0, 1]) == float(shapes.max())
    assert float(heights[0, 1]) < float(heights.max())


@pytest.mark.parametrize("options", [{}, {"sequences": True, "window": 2}])
def test_splits_do_not_depend_on_chunks_or_wires(options):
    parties = community_parties()
    method = make("gcfl", warmup=0, **options)
    whole = train(method, parties, rounds=5)
    assert len(set(clusters(whole))) > 1
    assert_same(whole, train(method, parties, rounds=5, chunk=2), 1e-9)
    assert_same(whole, train(method, parties, rounds=5, wire=True), 1e-9)


def without_clients(fed, missing):
    """Have a federation lose some clients' answers to `train`."""
    deliver = fed.deliver

    def lossy(call, to, each):
        for batch in deliver(call, to, each):
            lost = [i for i, client in enumerate(batch.clients) if client in missing]
            yield without(batch, lost) if call.step == "train" else batch

    fed.deliver = lossy


def test_a_client_that_does_not_answer_follows_its_cluster():
    method = make("gcfl", warmup=4, smallest=3)
    outcome = train(method, two_camps(), rounds=8)
    before = copy(outcome.server)
    without_clients(outcome.fed, {3})
    outcome.fed.begin(9)
    after = flat(method.round(outcome.fed, nested(outcome.server), 9))
    assert after["cluster/of"].tolist() == [0, 0, 0, 1, 1, 1]
    for name, p in under(after, "model").items():
        assert torch.equal(p[3], p[4])
        assert not torch.equal(p[3], under(before, "model")[name][3])


def test_the_absent_stay_with_the_larger_part_and_a_silent_cluster_stands_still():
    parties = community_parties()
    method = make("gcfl", warmup=1, sequences=True, window=2)
    outcome = train(method, parties, rounds=1)
    without_clients(outcome.fed, {0, 5})
    outcome.fed.begin(2)
    method.round(outcome.fed, nested(copy(outcome.server)), 2)
    outcome.fed.begin(3)
    server = make("gcfl", warmup=1).round(outcome.fed, nested(copy(outcome.server)), 3)
    of = server["cluster"]["of"]
    answered = of[1:5].tolist()
    larger = max(set(answered), key=answered.count)
    assert len(set(answered)) == 2
    assert answered.count(larger) == 2 or of[[0, 5]].tolist() == [larger, larger]
    assert of[0] == of[5]
    apart = copy(outcome.server) | {"cluster/of": torch.tensor([1, 0, 0, 0, 0, 1])}
    outcome.fed.begin(4)
    after = flat(make("gcfl").round(outcome.fed, nested(apart), 4))
    for name, p in under(after, "model").items():
        assert torch.equal(p[[0, 5]], under(apart, "model")[name][[0, 5]])
        assert not torch.equal(p[1], under(apart, "model")[name][1])


def test_a_silent_clients_window_waits():
    method = make("gcfl", sequences=True, window=3)
    outcome = train(method, community_parties(), rounds=1)
    without_clients(outcome.fed, {2})
    outcome.fed.begin(2)
    after = flat(method.round(outcome.fed, nested(outcome.server), 2))
    assert after["window/filled"].tolist() == [2, 2, 1, 2, 2, 2]
    assert torch.equal(after["window/norms"][2], outcome.server["window/norms"][2])


def press_ctrl_c_after_round_3(round, val):
    if round == 3:
        signal.raise_signal(signal.SIGINT)


def test_clusters_and_windows_survive_an_interruption(tmp_path):
    table = {
        "method": {"name": "gcfl", "warmup": 1, "sequences": True, "window": 2},
        "data": {"name": "patients"},
        "partition": {"name": "random", "clients": 6},
        "model": {"hidden": 8},
        "run": {"rounds": 6},
    }
    run_experiment(resolve(table), tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_experiment(resolve(table), tmp_path / "cut", press_ctrl_c_after_round_3)
    _, server, *_ = load_checkpoint(tmp_path / "cut")
    assert len(set(server["cluster"]["of"].tolist())) == 2
    resume(tmp_path / "cut")
    whole, cut = ((tmp_path / d / "parameters.safetensors").read_bytes() for d in ("whole", "cut"))
    assert whole == cut


@pytest.mark.parametrize(
    ("option", "value"),
    [("eps1", -1.0), ("eps2", float("nan")), ("warmup", -1), ("smallest", 0), ("window", 1)],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(AtollError, match=f"method.{option} is"):
        GCFL(**{option: value})
