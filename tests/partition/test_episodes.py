import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import few_examples

from atoll.errors import AtollError
from atoll.graph import Graph, make_graph
from atoll.partition.episodes import new_label_episodes
from atoll.rng import stream


def labelled_graph(classes: int, each: int) -> Graph:
    n = classes * each
    return make_graph(np.zeros((n, 1), np.float32), np.empty((2, 0), int), np.arange(n) % classes)


@few_examples
@given(
    classes=st.integers(4, 8),
    new=st.integers(1, 2),
    labelled=st.integers(2, 10),
    seed=st.integers(0, 2**32),
)
def test_an_episode_trains_on_some_classes_and_adapts_to_others(classes, new, labelled, seed):
    graph = labelled_graph(classes, 35)
    episodes = new_label_episodes(graph, 5, new, stream(seed, "episodes"), labelled=labelled)
    assert len(episodes) == 5
    for episode in episodes:
        assert episode.new_classes.tolist() == list(range(classes - new, classes))
        assert len(set(episode.classes.tolist())) == new
        assert episode.classes.max() < classes - new
        trained = np.concatenate([episode.support, episode.query])
        tried = np.concatenate([episode.adapt, episode.test])
        assert len(set(trained.tolist())) == new * labelled
        assert len(set(tried.tolist())) == new * (labelled + 20)
        assert (np.bincount(graph.y[trained], minlength=classes)[episode.classes] == labelled).all()
        assert (np.bincount(graph.y[episode.adapt])[episode.new_classes] == labelled).all()
        assert (np.bincount(graph.y[episode.test])[episode.new_classes] == 20).all()


def test_coras_episode_has_the_papers_numbers():
    (episode,) = new_label_episodes(labelled_graph(7, 40), 1, 2, stream(0, "episodes"))
    parts = (episode.support, episode.query, episode.adapt, episode.test)
    assert [len(part) for part in parts] == [10, 10, 20, 40]


def test_task_labels_are_positions_among_the_classes():
    (episode,) = new_label_episodes(labelled_graph(6, 40), 1, 3, stream(0, "episodes"))
    assert episode.task_label(episode.classes).tolist() == [0, 1, 2]
    assert episode.task_label(np.array([5, 3, 4])).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("classes", "each", "new", "message"),
    [
        (4, 40, 3, "choose 1 to 2 new classes"),
        (4, 40, 0, "choose 1 to 2 new classes"),
        (4, 25, 2, "class 2 of graph has 25 nodes and episodes need 30"),
    ],
)
def test_bad_requests(classes, each, new, message):
    with pytest.raises(AtollError, match=message):
        new_label_episodes(labelled_graph(classes, each), 2, new, stream(0, "episodes"))
